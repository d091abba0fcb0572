// Runs one compiled test file and counts its tests from the TAP it prints.
import { spawn } from 'node:child_process';
import { Parser } from 'tap-parser';

// Chosen: after a time-out tap gets SIGTERM and says which test was open; this is how long it has for that.
const graceMs = 5_000;
// Chosen: enough of a failing file's other output to find the cause, not enough to drown the terminal.
const keptOutputBytes = 32 << 10;

/**
 * @typedef {object} FileResult
 * @property {number} passed tests, that is innermost named blocks; a file without named blocks is one test
 * @property {number} failed
 * @property {number} skipped
 * @property {string[]} skipReasons
 * @property {string[]} failures one text a failed assertion, with its diagnostics
 * @property {string} output what the file printed besides TAP: the end of it
 * @property {number} durationMs
 */

/**
 * @param {string} file
 * @param {number} timeoutMs for the whole file
 * @returns {Promise<FileResult>}
 */
export function runTestFile(file, timeoutMs) {
  return new Promise((resolve, reject) => {
    const startMs = performance.now();
    const tally = new Tally();
    const output = new OutputTail();
    const env = { ...process.env, TAP: '1', TAP_TIMEOUT: String(Math.ceil(timeoutMs / 1000)) };
    const child = spawn(process.execPath, ['--enable-source-maps', file], { stdio: ['ignore', 'pipe', 'pipe'], env });
    const timers = [
      setTimeout(() => child.kill('SIGTERM'), timeoutMs + 1_000),
      setTimeout(() => child.kill('SIGKILL'), timeoutMs + 1_000 + graceMs),
    ];
    tally.parser.on('extra', (text) => output.add(text));
    child.stderr.on('data', (chunk) => output.add(chunk));
    child.stdout.pipe(tally.parser, { end: false });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      for (const timer of timers) clearTimeout(timer);
      tally.parser.end();
      const durationMs = performance.now() - startMs;
      const ending = signal ? `killed by ${signal}` : `exit ${code}`;
      resolve({ ...tally.finish(code === 0, ending), output: output.text(), durationMs });
    });
  });
}

class OutputTail {
  #text = '';

  add(chunk) {
    this.#text = (this.#text + chunk).slice(-keptOutputBytes);
  }

  text() {
    return this.#text.trim();
  }
}

class Tally {
  parser = new Parser();
  #counts = { passed: 0, failed: 0, skipped: 0 };
  #failures = [];
  #skipReasons = [];
  #tests;
  #skippedFile;

  constructor() {
    this.#tests = this.#watch(this.parser);
    // tap writes the same empty plan for a file that is skipped on purpose and for one in which it found nothing.
    this.parser.on('plan', (plan) => {
      if (plan.end === 0 && plan.comment !== 'no tests found') this.#skippedFile = plan.comment || 'no reason given';
    });
  }

  /** Follows one level of TAP. A subtest's own result comes as a test point of its parent, after the subtest. */
  #watch(parser) {
    const level = { children: 0, failedAsserts: 0 };
    let closed;
    parser.on('child', (child) => {
      closed = this.#watch(child);
    });
    parser.on('assert', (result) => {
      const subtest = closed;
      closed = undefined;
      const isSkipped = Boolean(result.skip || result.todo);
      if (isSkipped) this.#skipReasons.push(`${result.fullname || result.name}: ${result.skip || result.todo}`);
      if (!subtest && !isSkipped) {
        if (!result.ok) this.#fail(level, result);
        return;
      }
      level.children++;
      if (isSkipped) this.#counts.skipped++;
      else if (subtest.children === 0) this.#counts[result.ok ? 'passed' : 'failed']++;
      else if (subtest.failedAsserts > 0) this.#counts.failed++;
    });
    return level;
  }

  #fail(level, result) {
    level.failedAsserts++;
    this.#failures.push([result.fullname || result.name, ...diagnosticLines(result.diag ?? {})].join('\n'));
  }

  finish(endedWell, ending) {
    const counts = this.#counts;
    const failures = this.#failures;
    if (this.#skippedFile !== undefined && endedWell) {
      return { ...counts, skipped: 1, skipReasons: [this.#skippedFile], failures };
    }
    if (this.#tests.failedAsserts > 0) counts.failed++;
    else if (this.#tests.children === 0 && endedWell && this.parser.count > 0) counts.passed++;
    // A crash, a time-out or a file that tests nothing must never look like success.
    const noTests = counts.passed + counts.failed + counts.skipped === 0;
    if (counts.failed === 0 && (!endedWell || !this.parser.ok || noTests)) {
      counts.failed++;
      failures.push(noTests && endedWell ? 'the file has no tests' : `the file ended badly: ${ending}`);
    }
    return { ...counts, skipReasons: this.#skipReasons, failures };
  }
}

/** The place and the difference first to last as tap gives them; the source excerpt is in the file that `at` names. */
function diagnosticLines({ source, ...diagnostics }) {
  return Object.entries(diagnostics).map(([key, value]) => {
    const text = typeof value === 'string' ? value.trimEnd() : JSON.stringify(value);
    return `  ${key}: ${text.includes('\n') ? `\n${text}`.replace(/\n/g, '\n    ') : text}`;
  });
}
