/**
 * Layout of a single-producer single-consumer ring in a SharedArrayBuffer. Constants only.
 *
 * ```
 * byte 0          128         256                      256 + capacityBytes
 *      | tail ....| head .....| records ...............|
 *
 * record: | lengthBytes i32 | type i32 | payload ... | pad to 8 |
 * ```
 * `tail` and `head` are free-running 32-bit byte counters, never reset: used = (tail - head) | 0.
 * A record never wraps; a padding record fills the end of the buffer.
 */

/** Producer's counter. Alone on its cache lines: 128 bytes covers the pair that Intel and Apple cores prefetch. */
export const RING_TAIL_BYTE = 0;
/** Consumer's counter. */
export const RING_HEAD_BYTE = 128;
/** First byte of the records. */
export const RING_DATA_BYTE = 256;

/** Record header: payload length in bytes (i32), then type (i32). */
export const RECORD_HEADER_BYTES = 8;
/** Records start at multiples of this, so that Float64 and Int32 views need no shifting. */
export const RECORD_ALIGN_BYTES = 8;
/** A record takes at most this share of the ring: one reader's delay must not mean one record in flight. Chosen. */
export const RECORD_MAX_SHARE = 8;

/** Type of the record that fills the end of the buffer. Users' types are ≥ 1. */
export const RECORD_TYPE_PADDING = 0;
