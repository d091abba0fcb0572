import { type Birth, type FromServer, type LineTarget, SUPERVISED_MARK, type ToServer } from './protocol.js';

/** The server process's end of the channel to its supervisor. Without a supervisor it does nothing. */
export interface SupervisorLink {
  readonly birth: Birth;
  hello(settings: { shutdownTimeoutMs: number; logFormat: 'json' | 'text'; isSilent: boolean }): void;
  line(target: LineTarget): void;
  ready(): void;
  stopping(): void;
  died(): void;
  /** `handler` is told of each request to stop; a supervisor that is gone is one. Returns what takes it off again. */
  onStop(handler: (source: StopSource) => void): () => void;
}

export type StopSource = 'supervisor' | 'supervisor gone';

/** The link of this process, by the mark that its supervisor left in `env`; takes the mark off, so that no program started from here bears it. */
export function openSupervisorLink(env: NodeJS.ProcessEnv): SupervisorLink {
  const mark = env[SUPERVISED_MARK];
  delete env[SUPERVISED_MARK];
  const birth: Birth =
    mark !== undefined && process.send !== undefined ? JSON.parse(mark) : { restarts: 0, carried: null };
  // Without a channel nothing is sent, and the two events never come.
  const tell = (message: FromServer) => {
    if (process.connected) process.send?.(message, () => {});
  };
  return {
    birth,
    hello: (settings) => tell({ type: 'hello', ...settings }),
    line: (target) => tell({ type: 'line', target }),
    ready: () => tell({ type: 'ready' }),
    stopping: () => tell({ type: 'stopping' }),
    died: () => tell({ type: 'died' }),
    onStop,
  };
}

function onStop(handler: (source: StopSource) => void): () => void {
  const onMessage = (message: unknown) => {
    if ((message as ToServer).type === 'stop') handler('supervisor');
  };
  const onDisconnect = () => handler('supervisor gone');
  process.on('message', onMessage);
  process.on('disconnect', onDisconnect);
  // The channel alone must not keep a process alive that has nothing left to do.
  process.channel?.unref();
  return () => {
    process.off('message', onMessage);
    process.off('disconnect', onDisconnect);
  };
}
