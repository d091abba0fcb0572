/** What every row of the table gives to the run. */

/** `default`: llama-server with nothing but a model; `best` and `best-2`: what someone who knows it would set for the case. */
export type Line = 'plimsoll' | 'default' | 'best' | 'best-2' | 'ceiling';

export interface FlagSet {
  flags: readonly string[];
  /** Why somebody would set these. */
  reason: string;
}

/** Numbers of one trial by name. */
export type Figures = Record<string, number>;

export interface Measurement {
  /** Of a server that was started for this trial alone. */
  url: string;
  /** The same in every line of a round, another one in the next round. */
  seed: number;
  /** Fires when the trial's time is over. */
  signal: AbortSignal;
}

/** One line of the published table: a figure, and what the project asks of it. */
export interface Check {
  figure: string;
  /** As it is printed, with its unit. */
  name: string;
  digits: number;
  /** Whether more or less of the figure is better. */
  better: 'more' | 'less';
  /**
   * `better`: the better of llama-server's lines, figure by figure. `best`: the better of those with flags. `default`, `ceiling`: that
   * line. `none`: the figure itself is bounded.
   */
  against: 'better' | 'best' | 'default' | 'ceiling' | 'none';
  /** Of the ratio, or of the figure itself: at least when more is better, at most when less is. */
  bound: number;
}

export interface TableRow {
  id: string;
  title: string;
  /** What is sent, for whoever reads the numbers. */
  load: string;
  plimsoll: FlagSet;
  peers: { default: FlagSet; best: FlagSet; 'best-2'?: FlagSet };
  /** Shape of the run of llama-batched-bench that is the row's ceiling. */
  ceiling?: { sequences: number; promptTokens: number; outputTokens: number };
  checks: readonly Check[];
  /** @throws Error when the load did not run as it should. */
  measure(on: Measurement): Promise<Figures>;
}

/** Nothing but the model, its thread count and a port, which every line gets. */
export const PEER_DEFAULTS: FlagSet = { flags: [], reason: 'as it comes: 4 slots in one pool of the model’s context' };
export const PLIMSOLL_DEFAULTS: FlagSet = { flags: [], reason: 'as it comes' };
