/** The load line on machines that are not here: the scheduler and planner that serve, over a simulated device and clock. */
export { Clients, PoissonArrivals } from './arrivals.js';
export { SimulatedCrash, SimulatedDevice } from './device.js';
export { cgroupMachine, machineOfProfile, type SimulatedMachine } from './machine.js';
export { MODELS, type ModelName, type SimulatedModel } from './models.js';
export { comingAndGoing, NOBODY_ELSE, type OthersUse } from './others-use.js';
export { isRefusal, type Moment, type SimulationOutcome, type SimulationResult } from './result.js';
export { type SimulationInput, simulate } from './simulate.js';
export type { ChipName } from './speed.js';
export { parseTrace, type TraceLine, TracePlayer } from './trace.js';
export type { RequestShape, Workload } from './workload.js';
