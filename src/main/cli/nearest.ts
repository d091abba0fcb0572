/** Typing errors per letter that still count as the same word. Chosen: one in three. */
const ERRORS_PER_LETTER = 1 / 3;

/** The candidate that is most like `word`, or null when none is near enough to be meant. */
export function nearestName(word: string, candidates: Iterable<string>): string | null {
  let best: string | null = null;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate);
    if (distance < bestDistance && distance <= Math.max(word.length, candidate.length) * ERRORS_PER_LETTER) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best ?? longestContained(word, candidates);
}

/** "--max-running" is far from "--max-running-requests" by edits, and yet it is clear what was meant. */
function longestContained(word: string, candidates: Iterable<string>): string | null {
  const bare = word.replace(/^-+/, '');
  if (bare.length < 4) return null;
  const containing = [...candidates].filter(
    (candidate) => candidate.includes(bare) || bare.includes(candidate.replace(/^-+/, '')),
  );
  return containing.sort((a, b) => Math.abs(a.length - word.length) - Math.abs(b.length - word.length))[0] ?? null;
}

/** Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + cost);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) row[j] = Math.min(row[j], beforePrevious[j - 2] + 1);
    }
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length];
}
