/** The load line, as the rest of the server calls it. */
export type { AllocationRules, ContextCost, CostModel } from './cost-model.js';
export { contextCost, ExactCostModel } from './exact-cost-model.js';
export { type DeviceMemory, deviceMemoryOf, type Headroom, headroomOf, hostHeadroomOf, limitOf } from './headroom.js';
export { planLines, refusalText } from './plan-text.js';
export type {
  CapReason,
  Knob,
  LedgerLine,
  Plan,
  PlanFlags,
  PlanInput,
  PlanMachine,
  PlanModel,
  Refusal,
} from './plan-types.js';
export { planContext } from './planner.js';
