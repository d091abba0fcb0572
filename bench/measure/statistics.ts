/** Value below which `share` (0 to 1) of the values lie, by linear interpolation. NaN of nothing. */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.ceil(at);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export function spread(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** "1.23 (1.10 to 1.31)". */
export function formatSpread({ median, min, max }: Spread, digits = 2): string {
  return `${formatNumber(median, digits)} (${formatNumber(min, digits)} to ${formatNumber(max, digits)})`;
}

export function formatNumber(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
