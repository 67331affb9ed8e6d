"""Nano: a small trained checkpoint of the architecture, and everything that makes it. See README.md."""
