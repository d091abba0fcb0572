import { type Logger, pino } from 'pino';
import type { Config } from '../shared/config.js';

/**
 * The server's logger, on stderr: stdout is for answers. Synchronous, so that the last lines before a crash are there. `pretty` is for
 * a person at a terminal; JSON lines are for everything else.
 */
export async function createLogger(config: Pick<Config, 'logLevel' | 'logFormat'>): Promise<Logger> {
  const options = { level: config.logLevel, base: null };
  if (!isPrettyLog(config)) return pino(options, pino.destination({ fd: 2, sync: true }));
  const { PinoPretty } = await import('pino-pretty');
  return pino(
    options,
    PinoPretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' }),
  );
}

export function isPrettyLog({ logFormat }: Pick<Config, 'logFormat'>): boolean {
  return logFormat === 'pretty' || (logFormat === 'auto' && process.stderr.isTTY === true);
}
