import type { DeviceGauge, SchedulerGauge } from '../../shared/gauges-layout.js';
import { DEVICE_GAUGES, SCHEDULER_GAUGES } from '../../shared/gauges-layout.js';

/** What only ever grows: it goes on from where an unloaded model left it. */
const DEVICE_COUNTS: readonly DeviceGauge[] = ['steps', 'decodedTokens', 'contextEpoch'];
const SCHEDULER_COUNTS: readonly SchedulerGauge[] = [
  'evictions',
  'evictedTokens',
  'preemptions',
  'prefixHitTokens',
  'prefixLookupTokens',
  'hostPrefixSaves',
  'hostPrefixHits',
  'hostPrefixHitTokens',
  'hostPrefixEvictions',
  'diskPrefixSaves',
  'diskPrefixHits',
  'diskPrefixHitTokens',
  'diskPrefixEvictions',
  'diskPrefixErrors',
  'draftedTokens',
  'acceptedDraftTokens',
];

type DeviceValues = Readonly<Record<DeviceGauge, number>>;
type SchedulerValues = Readonly<Record<SchedulerGauge, number>>;

/** Gauges across the lives of a model: counts add up, readings are 0 while there is nothing to read. */
export class GaugeCarry {
  private readonly device: Record<DeviceGauge, number> = zeros(DEVICE_GAUGES);
  private readonly scheduler: Record<SchedulerGauge, number> = zeros(SCHEDULER_GAUGES);

  /** Takes the counts of a pipeline that is about to go. */
  add(last: { deviceGauges(): DeviceValues; schedulerGauges(): SchedulerValues }): void {
    const device = last.deviceGauges();
    const scheduler = last.schedulerGauges();
    for (const field of DEVICE_COUNTS) this.device[field] += device[field];
    for (const field of SCHEDULER_COUNTS) this.scheduler[field] += scheduler[field];
  }

  /** `now`: null while there is no pipeline. */
  deviceGauges(now: DeviceValues | null): DeviceValues {
    return carried(now, this.device, DEVICE_COUNTS);
  }

  schedulerGauges(now: SchedulerValues | null): SchedulerValues {
    return carried(now, this.scheduler, SCHEDULER_COUNTS);
  }
}

function carried<F extends string>(
  now: Readonly<Record<F, number>> | null,
  before: Readonly<Record<F, number>>,
  counts: readonly F[],
): Readonly<Record<F, number>> {
  if (now === null) return { ...before };
  const sum: Record<F, number> = { ...now };
  for (const field of counts) sum[field] += before[field];
  return sum;
}

function zeros<F extends string>(fields: readonly F[]): Record<F, number> {
  return Object.fromEntries(fields.map((field) => [field, 0])) as Record<F, number>;
}
