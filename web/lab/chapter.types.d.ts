// Types of what the chapter view receives: the lab of one run, the figures of crate/lab/figure.rs, and the part of the engine that chapters call.

export interface Text { vi: string; en: string }
export type Lang = 'vi' | 'en';
export type Source = 'gpu' | 'cpu' | 'recorded';
export type Translate = (key: string, params?: Record<string, string | number>) => string;
export type Cell = null | number | Text;

export interface TensorRef { name: string; shape: number[]; about: Text }
export interface Table { title: Text; badge: string; columns: Text[]; rows: Cell[][] }
export interface Check { what: Text; passed: boolean; numbers: Text }
export interface Token { position: number; id: number; kind: string; label: string }

export interface Chapter {
  code: string; name: Text; look_for: Text; inputs: TensorRef[]; happens: Text; formula: Text[]; outputs: TensorRef[];
  tables: Table[]; notes: Text[]; checks: Check[]; figure: Figure | null;
}
export interface Lab {
  about: Text[]; tokens: Token[]; followed: number; layer: number; chapters: Chapter[]; passed: number; failed: number;
}

export interface Tensor {
  tap: string; layer: number; shape: number[]; kind: 'f32' | 'i64'; data: Float32Array | Int32Array; source: string;
}
export interface Candidate { id: number; label: string; logit: number; probability: number }
export interface KvComparison { argmaxSame: boolean; maxLogit: number; nmse: number; before: Candidate[]; after: Candidate[] }
export interface ParityRow { tap: string; layer: number; nmse: number; limit: number; passed: boolean }
export interface Timings {
  prefill: { tokens: number; p50: number; p95: number; p99: number };
  decode: { p50: number; p95: number; p99: number };
  unit: string; conditions: Text[];
}
export interface Engine {
  tensor(of: { tap: string; layer: number }): Promise<Tensor>;
  taps(): Promise<{ tap: string; layer: number; shape: number[]; kind: string; source: string }[]>;
  compareKv(): Promise<KvComparison>;
  parity(): Promise<{ rows: ParityRow[] | null } | null>;
  timings(): Promise<Timings>;
}

export interface Context {
  chapter: Chapter; lab: Lab; info: unknown; lang: Lang; t: Translate; engine: Engine | null; source: Source;
  onTensor?: (of: { tap: string; layer: number }) => void;
  onToken?: (position: number) => void;
  onRunChecks?: (code: string) => void | Promise<void>;
}

/** What the page keeps of a chapter view between calls. */
export interface View {
  context: Context; parts: Record<string, HTMLElement>;
  /** By block. */
  states: Map<string, Record<string, number>>;
  /** Results of the measurements, while the run is the same. */
  results: Map<string, Node>;
  open: { tap: string; tensor: Tensor | null; message: string } | null;
  /** Key of the button that opened the tensor. */
  opener: string; width: number;
}

/** What a figure gets: its data, where to draw, and small state that survives a redraw. */
export interface Draw<F> {
  data: F; lab: Lab; lang: Lang; t: Translate; width: number; host: HTMLElement;
  /** Kept per block while the page lives: slider positions, chosen head. */
  state: Record<string, number>;
  onToken: (position: number) => void;
  /** Draws the figure again, after a change of state. */
  again: () => void;
}

export type Figure =
  | InputFigure | EngramFigure | StreamsFigure | ScheduleFigure | CompressorFigure
  | WindowFigure | AttentionFigure | CacheFigure | ExpertsFigure | HeadFigure;

export interface PictureFigure {
  generated: boolean; given: [number, number]; fitted: [number, number]; patch: number; merge: number;
  patches: [number, number]; cells: [number, number]; start: number; thumb: [number, number]; rgb: string;
}
export interface InputFigure { block: '1A'; picture: PictureFigure | null; row: number[]; lengths: number[] }
export interface HashStep {
  back: number; position: number | null; label: string; compressed: number; multiplier: string; product: string; hash: string;
}
export interface HashRow { size: number; head: number; prime: number; remainder: number; offset: number; row: number }
export interface EngramFigure {
  block: '1B'; layer: number; blocked: boolean; steps: HashStep[]; rows: HashRow[]; gates: { layer: number; gates: number[] }[];
}
export interface MixFigure { pre: number[]; post: number[]; comb: number[]; sinkhorn: number[][]; rowError: number[] }
export interface StreamsFigure { block: '2A'; layer: number; before: number[]; after: number[]; attn: MixFigure; ffn: MixFigure }
export interface ScheduleFigure {
  block: '3A'; positions: number; tail: number; decoder: number; first: number[]; read: number; write: number;
  released: [number, number]; byLayer: number[];
}
export interface CompressorFigure {
  block: '3B'; layer: number; source: number; role: string; ratio: number; entry: number | null; tokens: number[];
  weights: number[][]; values: number[][]; pooled: number[];
}
export interface WindowFigure {
  block: '3C'; layer: number; slots: (number | null)[]; head: number; indexSource: number | null; ratio: number;
  scores: (number | null)[]; blockSize: number; blocks: number[]; chosen: number[]; topK: number;
}
export interface AttentionFigure {
  block: '4A'; layer: number; window: number[]; entries: number[]; ratio: number; weights: number[][];
  tailBefore: number[][]; tailAfter: number[][]; groups: number;
}
export interface EntryBytes {
  index: number; codes: number[]; scales: number[]; keyCodes: number[]; keyScales: number[]; stored: number[]; exact: number[];
}
export interface LedgerLine { layer: number; ratio: number; entries: number; parts: [number, number, number, number]; perToken: number }
export interface CacheFigure {
  block: '6A'; layer: number; entry: EntryBytes | null; ledger: LedgerLine[]; tokens: number; bytes: number; perToken: number;
  rings: number; open: number;
}
export interface ExpertsFigure {
  block: '5A'; layer: number; scores: number[]; bias: number[]; picture: boolean; chosen: number[]; weights: number[]; paths: number[][];
}
export interface DraftToken {
  id: number; label: string; confidence: number; withoutMarkov: string; main: string; agrees: boolean;
}
export interface HeadFigure {
  block: '6B'; top: Candidate[]; draft: { anchor: Candidate; tokens: DraftToken[]; accepted: number } | null;
}
