/** Milliseconds of a clock that all threads of the process share, in 31 bits, for heartbeats in Int32 words. */
export function heartbeatNow(): number {
  return Math.floor(performance.timeOrigin + performance.now()) & 0x7fffffff;
}

/** Milliseconds since `beat`, across the 31-bit wrap. */
export function heartbeatAgeMs(beat: number): number {
  return (heartbeatNow() - beat) & 0x7fffffff;
}
