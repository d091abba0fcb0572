/**
 * `make bench-pipeline`: what the threads and the HTTP server can carry when the engine costs nothing. Each trial in a fresh process on
 * at most two cores. Arguments: trials (5), seconds a trial (5).
 */
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber, formatSpread, median, spread } from '../measure/statistics.js';
import { runTrial } from '../measure/trial.js';
import type { HttpResult } from './http-trial.js';
import type { ScheduleResult } from './schedule-trial.js';
import type { StepsResult } from './steps-trial.js';

const CORES = 2;
const SEQUENCES = 32;
const CLIENTS = 64;
/** Asked for by the project: a step's overhead must vanish beside a millisecond of GPU time. */
const TARGET_STEPS_PER_SECOND = 20_000;
const TARGET_TOKENS_PER_SECOND = 20_000;
const RUNNING = 64;
const WAITING = 1_000;
const PLANNED_STEPS = 20_000;
/** Asked for by the project: planning with that many must stay far below a step. */
const TARGET_SCHEDULE_MICROS = 500;

const stepsScript = new URL('./steps-trial.js', import.meta.url);
const httpScript = new URL('./http-trial.js', import.meta.url);
const scheduleScript = new URL('./schedule-trial.js', import.meta.url);

const [trialsArgument = '5', seconds = '5'] = process.argv.slice(2);
const where = conditions();
const overlap: StepsResult[] = [];
const lockstep: StepsResult[] = [];
const http: HttpResult[] = [];
const schedule: ScheduleResult[] = [];
for (let i = 1; i <= Number(trialsArgument); i++) {
  const steps = (mode: string) => [String(SEQUENCES), seconds, mode];
  overlap.push(await runTrial<StepsResult>(stepsScript, { args: steps('overlap'), cores: CORES }));
  lockstep.push(await runTrial<StepsResult>(stepsScript, { args: steps('lockstep'), cores: CORES }));
  http.push(await runTrial<HttpResult>(httpScript, { args: [String(CLIENTS), seconds], cores: CORES }));
  const queue = [RUNNING, WAITING, PLANNED_STEPS].map(String);
  schedule.push(await runTrial<ScheduleResult>(scheduleScript, { args: queue, cores: CORES }));
  process.stderr.write(
    `trial ${i}: ${formatNumber(overlap.at(-1)!.stepsPerSecond, 0)} steps/s, ` +
      `lock step ${formatNumber(lockstep.at(-1)!.stepsPerSecond, 0)}, ` +
      `${formatNumber(http.at(-1)!.tokensPerSecond, 0)} tokens/s over HTTP, ` +
      `a plan ${formatNumber(schedule.at(-1)!.p99Micros, 0)} µs at p99\n`,
  );
}

function stepsRow(name: string, results: StepsResult[]): string[] {
  const rates = spread(results.map((r) => r.stepsPerSecond));
  return [
    name,
    `${formatNumber(rates.median / TARGET_STEPS_PER_SECOND, 2)} ×`,
    `${formatSpread(rates, 0)} steps/s`,
    `${formatNumber(median(results.map((r) => r.cpuMicrosPerStep)), 0)} µs a step`,
    shares(results),
  ];
}

function httpRow(results: HttpResult[]): string[] {
  const rates = spread(results.map((r) => r.tokensPerSecond));
  return [
    `${CLIENTS} streaming clients over HTTP`,
    `${formatNumber(rates.median / TARGET_TOKENS_PER_SECOND, 2)} ×`,
    `${formatSpread(rates, 0)} tokens/s`,
    `${formatNumber(median(results.map((r) => r.cpuMicrosPerToken)), 1)} µs a token`,
    shares(results),
  ];
}

function scheduleRow(results: ScheduleResult[]): string[] {
  const p99 = spread(results.map((r) => r.p99Micros));
  return [
    `planning a step, ${RUNNING} running and ${formatNumber(WAITING, 0)} waiting`,
    `${formatNumber(p99.median / TARGET_SCHEDULE_MICROS, 2)} ×`,
    `${formatSpread(p99, 0)} µs at p99`,
    `${formatNumber(median(results.map((r) => r.p50Micros)), 0)} µs at p50`,
    '',
  ];
}

function shares(results: Array<{ threadShares: number[] }>): string {
  const columns = results[0].threadShares.map((_, i) => median(results.map((r) => r.threadShares[i])));
  return columns.map((share) => `${formatNumber(share * 100, 0)} %`).join(', ') || 'not known';
}

publish({
  name: 'pipeline',
  title: 'Pipeline without an engine',
  method:
    `The real threads, rings, scheduler and HTTP server over the fake engine with no delays: what everything but the model costs. ` +
    `Steps are decodes of ${SEQUENCES} running sequences through overlap and forward worker, every token read by the main thread. Over ` +
    `HTTP each token is one SSE event of a chat completion; the clients, bare sockets in a process of their own, share the same ` +
    `${CORES} cores. Planning is the scheduler alone, its record encoded, with prompts that share prefixes and requests that end and come. ` +
    `The ratio is to what the project asks for: ${formatNumber(TARGET_STEPS_PER_SECOND, 0)} steps/s, ` +
    `${formatNumber(TARGET_TOKENS_PER_SECOND, 0)} tokens/s and at most ${TARGET_SCHEDULE_MICROS} µs. Median (least to most) of ${trialsArgument} trials of ${seconds} s, ` +
    `each in a fresh process after a warm-up.`,
  conditions: where,
  columns: ['what', 'ratio', 'rate', "CPU of the server's process", 'busiest threads'],
  rows: [
    stepsRow(`${SEQUENCES} sequences, overlapped`, overlap),
    stepsRow(`${SEQUENCES} sequences, --disable-overlap-schedule`, lockstep),
    httpRow(http),
    scheduleRow(schedule),
  ],
  notes: [],
  trials: [{ overlap, lockstep, http, schedule }],
});
