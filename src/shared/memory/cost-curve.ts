import { CELL_PADDING_TOKENS } from './constants.js';

/** Bytes at a number of cells. */
export interface CurvePoint {
  cells: number;
  totalBytes: number;
  kvBytes: number;
}

/** Measurements to close in on the largest size that fits. Chosen: a straight line needs one, a bent one (sliding windows) two. */
const REFINEMENTS_MAX = 3;

/**
 * Cost against cells, from a few measurements: a straight line for most models, bent where sliding-window layers stop growing. It is
 * never extrapolated past `mostCells`, the largest size that the caller has any use for.
 */
export class CostCurve {
  private readonly points: CurvePoint[] = [];

  constructor(
    private readonly measure: (cells: number) => Omit<CurvePoint, 'cells'>,
    readonly mostCells: number,
  ) {
    this.at(CELL_PADDING_TOKENS);
    if (mostCells > CELL_PADDING_TOKENS) this.at(mostCells);
  }

  at(cells: number): CurvePoint {
    const known = this.points.find((point) => point.cells === cells);
    if (known) return known;
    const point = { cells, ...this.measure(cells) };
    this.points.push(point);
    this.points.sort((a, b) => a.cells - b.cells);
    return point;
  }

  /** Largest padded number of cells within both limits, as far as a few measurements find it; 0 when not even the smallest is. It was
   *  measured, so it fits. */
  largest(totalLimitBytes: number, kvLimitBytes: number): number {
    for (let i = 0; i < REFINEMENTS_MAX; i++) {
      const cells = this.estimate(totalLimitBytes, kvLimitBytes);
      if (cells === 0 || this.points.some((point) => point.cells === cells)) break;
      this.at(cells);
    }
    const fits = this.points.filter((p) => p.totalBytes <= totalLimitBytes && p.kvBytes <= kvLimitBytes);
    return fits[fits.length - 1]?.cells ?? 0;
  }

  /** The same without a measurement: a straight line between the points there are. */
  estimate(totalLimitBytes: number, kvLimitBytes: number): number {
    return Math.min(this.solve('totalBytes', totalLimitBytes), this.solve('kvBytes', kvLimitBytes));
  }

  /** KV bytes that one more token takes, over the whole curve. */
  get kvBytesPerToken(): number {
    const first = this.points[0];
    const last = this.points[this.points.length - 1];
    return last.cells === first.cells
      ? last.kvBytes / last.cells
      : (last.kvBytes - first.kvBytes) / (last.cells - first.cells);
  }

  private solve(key: 'totalBytes' | 'kvBytes', limitBytes: number): number {
    let fits: CurvePoint | null = null;
    for (const point of this.points) {
      if (point[key] <= limitBytes) {
        fits = point;
        continue;
      }
      if (fits === null) return 0;
      const slope = (point[key] - fits[key]) / (point.cells - fits.cells);
      return padDown(fits.cells + (limitBytes - fits[key]) / slope);
    }
    return fits?.cells ?? 0;
  }
}

function padDown(cells: number): number {
  return Math.floor(cells / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS;
}
