"""The architecture in PyTorch, a file per topic, with the tensor names of the release."""
