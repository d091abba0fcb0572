/**
 * Preloaded into every thread of a trial (`--import`): the load line asks nothing and reads nothing. Requests leave the queue unasked, no
 * readings are taken, and the context stays where it is. Good for a steady load that fits, and for nothing else.
 */
import { RungPolicy } from '../../src/shared/memory/rung-policy.js';
import { StandingGate } from '../../src/shared/scheduler/standing-gate.js';
import { DeviceGaugeWriter } from '../../src/workers/device-gauges.js';
import { LiveMemory } from '../../src/workers/live-memory.js';
import { MemoryWatch } from '../../src/workers/memory-watch.js';

StandingGate.prototype.admits = () => true;
RungPolicy.prototype.canClimb = () => false;
RungPolicy.prototype.wantsMove = () => false;
RungPolicy.prototype.decide = () => null;
DeviceGaugeWriter.prototype.refresh = () => {};
LiveMemory.prototype.refresh = () => false;
MemoryWatch.prototype.unexplainedBytes = () => 0;
