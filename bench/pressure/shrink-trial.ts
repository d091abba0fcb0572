import { promptTokens } from '../load/prompts.js';
import { streamCompletion } from '../load/streaming-client.js';
import { startInside, warmFileCache } from '../tight/contestants.js';
import { MemoryGroup } from '../tight/memory-group.js';
import { WorkingSetSampler } from '../tight/working-set.js';
import { Ballast } from './ballast.js';
import { gapsWhileAllAreWritten } from './gaps.js';
import { readGauges } from './load-line.js';

/** As many as the climb's trial has; with their answers they are 2040 tokens each, which the first rung's 8192 cells hold. */
const LIVE = 4;
const PROMPT_TOKENS = 1_800;
const OUTPUT_TOKENS = 240;
/** One more that came before, for which with the four the lower rung is too small: the context climbs, and has cached what it must give up. */
const EARLIER_TOKENS = { shared: 1_200, private: 2_100 };
/** 16384 cells on top and 8192 below, either way. */
const FLAGS = {
  shared: ['--context-length', '8192', '--max-running-requests', '8', '--max-total-tokens', '16384'],
  private: ['--context-length', '4096', '--max-running-requests', '4'],
};
const LIMIT_BYTES = 900 * 2 ** 20;
/** What the ballast leaves: less than half of the margin, more than the quarter from which on nothing is carried. Chosen. */
const LEFT_BYTES = 26 * 2 ** 20;
/** Others' growth. Chosen: as a program that loads a file. */
const BYTES_PER_SECOND = 50 * 2 ** 20;
const HOLD_MS = 60_000;

export interface ShrinkTrial {
  layout: 'private' | 'shared';
  /** Contexts that came after the last answer began. */
  moves: number;
  logged: string[];
  longestGapMs: number;
  usualGapMs: number;
  /** Tokens that went through the model while four prompts and their answers were computed, beyond those. */
  computedAgain: number;
  peakShare: number;
  kills: number;
}

/** A server whose context has grown is pressed by another process while four answers of 2k tokens are written. Linux, root. */
export async function runShrinkTrial(
  modelPath: string,
  layout: 'private' | 'shared',
  seed: number,
): Promise<ShrinkTrial> {
  warmFileCache('plimsoll', modelPath);
  const group = MemoryGroup.create('shrink', LIMIT_BYTES);
  const sampler = new WorkingSetSampler(group);
  let ballast: Ballast | null = null;
  try {
    const server = await startInside(
      group,
      { kind: 'plimsoll', flags: ['--kv-layout', layout, ...FLAGS[layout]] },
      modelPath,
    );
    const ask = (tokens: number, outputTokens: number, n: number, onToken?: () => void) =>
      streamCompletion(server.url, {
        prompt: promptTokens({ promptTokens: tokens, sharedTokens: 0, outputTokens }, seed, n),
        outputTokens,
        ...(onToken && { onToken }),
      });
    await ask(EARLIER_TOKENS[layout], 1, LIVE);
    const before = await readGauges(server.url);
    let pressed = before;
    const speaking = new Set<number>();
    const press = async () => {
      pressed = await readGauges(server.url);
      const bytes = Math.max(pressed.headroomBytes - LEFT_BYTES, 1);
      ballast = new Ballast(group, { bytes, bytesPerSecond: BYTES_PER_SECOND, holdMs: HOLD_MS, pauseMs: HOLD_MS });
    };
    let pressing: Promise<void> = Promise.resolve();
    const answers = await Promise.all(
      Array.from({ length: LIVE }, (_, n) =>
        ask(PROMPT_TOKENS, OUTPUT_TOKENS, n, () => {
          const isNew = !speaking.has(n);
          speaking.add(n);
          if (isNew && speaking.size === LIVE) pressing = press();
        }),
      ),
    );
    await pressing;
    const after = await readGauges(server.url);
    const gaps = gapsWhileAllAreWritten(answers).sort((a, b) => a - b);
    const { logTail } = server;
    await server.stop();
    const workingSet = await sampler.stop();
    return {
      layout,
      moves: after.contextEpoch - pressed.contextEpoch,
      logged: logTail.match(/(?:context rung|sequences could not) [^"\n]*/g) ?? [],
      longestGapMs: gaps.at(-1) ?? Number.NaN,
      usualGapMs: gaps[gaps.length >> 1] ?? Number.NaN,
      computedAgain: after.decodedTokens - before.decodedTokens - LIVE * (PROMPT_TOKENS + OUTPUT_TOKENS - 1),
      peakShare: workingSet.peakBytes / LIMIT_BYTES,
      kills: group.kills,
    };
  } finally {
    await sampler.stop();
    void (ballast as Ballast | null)?.stop().catch(() => {});
    await group.remove();
  }
}
