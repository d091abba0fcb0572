/** Plimsoll as a library: `import { Engine } from 'plimsoll'`. */
export { Engine, type EngineOptions, type GeneratedToken, type GenerateOptions } from './main/embedding.js';
export type { Residence } from './main/pipeline-types.js';
export { StartError } from './main/start-error.js';
export type { Config, ConfigInput } from './shared/config.js';
export { ConfigError } from './shared/config.js';
export { ERRORS, type ErrorCode, PlimsollError } from './shared/errors.js';
