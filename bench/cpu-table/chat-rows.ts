import { ChatClient } from '../../src/main/bench-command/chat-client.js';
import { type ChatMessage, randomWords } from '../../src/main/bench-command/prompts.js';
import { median, percentile } from '../measure/statistics.js';
import { warmUp } from './closed-loop-rows.js';
import { type Check, type Figures, type FlagSet, type Measurement, PEER_DEFAULTS, type TableRow } from './table-row.js';

const TURNS = 8;
/** Words of a user's message, about a token each. Chosen: eight turns stay below a place's context, and the row takes a minute. */
const MESSAGE_WORDS = 30;
const FIRST_MESSAGE_WORDS = 80;
/** An answer ends here, or earlier when the model ends it: what follows an end would not come back in the next turn's history. */
const ANSWER_TOKENS_MAX = 16;
/** Chosen: what is late beyond this says nothing any more; the time of the whole trial is bounded besides. */
const REQUEST_TIMEOUT_MS = 120_000;

const PLIMSOLL: FlagSet = {
  flags: ['--max-running-requests', '4', '--context-length', '1024'],
  reason: 'KV for four chats, as the peer has',
};
const PEERS: TableRow['peers'] = {
  default: PEER_DEFAULTS,
  best: {
    flags: ['-np', '4', '-c', '4096', '-sps', '0.5'],
    reason:
      'streams of their own; a slot is taken over only by a prompt that is half the same, not by one that shares the template. ' +
      'Chats that lose their slot wait in host memory (8 GiB by default)',
  },
};

function firstTokenCheck(bound: number): Check {
  return {
    figure: 'laterFirstTokenP50Ms',
    name: 'first token p50 from turn 2, ms',
    digits: 0,
    better: 'less',
    against: 'better',
    bound,
  };
}

export const fourChats: TableRow = {
  id: 'chats',
  title: `4 chats of ${TURNS} turns, interleaved`,
  load: loadOf(),
  plimsoll: PLIMSOLL,
  peers: PEERS,
  checks: [firstTokenCheck(1.0)],
  measure: (on) => interleaved(4, on),
};

export const sixteenChats: TableRow = {
  id: 'sixteen-chats',
  title: `16 chats of ${TURNS} turns, KV for 4`,
  load: loadOf(),
  plimsoll: PLIMSOLL,
  peers: PEERS,
  checks: [firstTokenCheck(0.8)],
  measure: (on) => interleaved(16, on),
};

function loadOf(): string {
  return (
    `a turn of each chat after the other, one request at a time: a first message of ${FIRST_MESSAGE_WORDS} words, later ones of ` +
    `${MESSAGE_WORDS}, answers of up to ${ANSWER_TOKENS_MAX} tokens that are part of the next turn`
  );
}

async function interleaved(chats: number, on: Measurement): Promise<Figures> {
  await warmUp(on, 1);
  const client = new ChatClient({ url: on.url, apiKey: null, timeoutMs: REQUEST_TIMEOUT_MS });
  const stop = () => client.stop();
  on.signal.addEventListener('abort', stop, { once: true });
  try {
    const named = await client.firstModel();
    if (named.kind !== 'named') throw new Error('the server names no model');
    return figuresOf(await allTurns(client, named.name, chats, on.seed));
  } finally {
    on.signal.removeEventListener('abort', stop);
    await client.close();
  }
}

interface Turn {
  turn: number;
  firstTokenMs: number;
  promptTokens: number;
  cachedTokens: number;
  outputTokens: number;
}

async function allTurns(client: ChatClient, model: string, chats: number, seed: number): Promise<Turn[]> {
  const histories: ChatMessage[][] = Array.from({ length: chats }, () => []);
  const turns: Turn[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [chat, messages] of histories.entries()) {
      const words = turn === 0 ? FIRST_MESSAGE_WORDS : MESSAGE_WORDS;
      messages.push({ role: 'user', content: randomWords(seed + chat * TURNS + turn, words) });
      const outcome = await client.ask({
        model,
        messages,
        outputTokens: ANSWER_TOKENS_MAX,
        dialect: { ignoreEos: false, includeUsage: true },
        dueAtMs: performance.now(),
      });
      if (outcome.kind === 'stopped') throw new Error('the time of the trial was over');
      if (outcome.kind === 'failed') throw new Error(`chat ${chat}, turn ${turn + 1}: ${outcome.failure.message}`);
      const { chunkMs, endMs, text, usage } = outcome.answer;
      messages.push({ role: 'assistant', content: text });
      // An answer that ends at once has no token to wait for but its end.
      turns.push({
        turn,
        firstTokenMs: chunkMs[0] ?? endMs,
        promptTokens: usage?.promptTokens ?? 0,
        cachedTokens: usage?.cachedTokens ?? 0,
        outputTokens: usage?.outputTokens ?? 0,
      });
    }
  }
  return turns;
}

function figuresOf(turns: Turn[]): Figures {
  const later = turns.filter(({ turn }) => turn > 0);
  const firstTokens = later.map((t) => t.firstTokenMs);
  const sum = (value: (t: Turn) => number) => later.reduce((total, t) => total + value(t), 0);
  return {
    laterFirstTokenP50Ms: median(firstTokens),
    laterFirstTokenP95Ms: percentile(firstTokens, 0.95),
    firstTurnFirstTokenP50Ms: median(turns.filter(({ turn }) => turn === 0).map((t) => t.firstTokenMs)),
    laterPromptTokens: sum((t) => t.promptTokens),
    laterCachedTokens: sum((t) => t.cachedTokens),
    laterOutputTokens: sum((t) => t.outputTokens),
  };
}
