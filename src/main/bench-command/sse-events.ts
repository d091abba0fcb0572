/** One event's text at most: a chunk of a stream is some hundred bytes, and whatever is at the other end must not fill our memory. Chosen. */
const EVENT_CHARACTERS_MAX = 1024 * 1024;

/** The data of each server-sent event of `body`. Comments and other fields are skipped. @throws Error for an event that is too long. */
export async function* sseData(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const ended of lines) {
      const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended;
      if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
      else if (line === '' && data.length > 0) {
        yield data.join('\n');
        data = [];
      }
    }
    const characters = data.reduce((sum, line) => sum + line.length, rest.length);
    if (characters > EVENT_CHARACTERS_MAX) throw new Error('an event of the stream is longer than a megabyte');
  }
}
