/** As /v1/load-line shows it. */
export interface LineView {
  /** Of the memory limit. */
  fraction: number;
  lowered_because: string | null;
  since: string | null;
}

export const WHOLE_LINE: LineView = { fraction: 1, lowered_because: null, since: null };
