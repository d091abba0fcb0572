import os from 'node:os';

/** How a server process ended. */
export interface Death {
  /** SIGABRT, exit code 134. */
  what: string;
  /** As a shell reports it: the exit code, or 128 + the signal. */
  exitCode: number;
  /** By a signal that nobody sends to ask for an end. */
  isCrash: boolean;
  /** Running out of memory ends like this: the engine aborts, or the kernel kills. */
  isMemoryLike: boolean;
  /** By a signal that asks for an end: somebody wanted it. */
  isAskedFor: boolean;
}

/** Ends that a bug, the hardware or a lack of memory causes. V8 ends itself with SIGTRAP or SIGILL, the engine with SIGABRT. */
const CRASH_SIGNALS = ['SIGABRT', 'SIGKILL', 'SIGSEGV', 'SIGBUS', 'SIGILL', 'SIGTRAP', 'SIGFPE', 'SIGSYS'] as const;
const MEMORY_SIGNALS: ReadonlySet<string> = new Set(['SIGABRT', 'SIGKILL']);
const ASKING_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
const SHELL_BASE = 128;

/** `code` and `signal` as a child process's exit event gives them. */
export function deathOf(code: number | null, signal: NodeJS.Signals | null): Death {
  if (signal !== null) return deathBy(signal, signal, SHELL_BASE + os.constants.signals[signal]);
  const exitCode = code ?? 1;
  // A wrapper (a shell, an init of a container) reports a signal as a code.
  const reported = [...CRASH_SIGNALS, ...ASKING_SIGNALS].find(
    (name) => SHELL_BASE + os.constants.signals[name] === exitCode,
  );
  return deathBy(reported ?? null, `exit code ${exitCode}`, exitCode);
}

function deathBy(signal: NodeJS.Signals | null, what: string, exitCode: number): Death {
  return {
    what,
    exitCode,
    isCrash: CRASH_SIGNALS.some((name) => name === signal),
    isMemoryLike: signal !== null && MEMORY_SIGNALS.has(signal),
    isAskedFor: ASKING_SIGNALS.some((name) => name === signal),
  };
}
