import type { Readings } from '../engine.js';
import type { SimulatedMachine } from './machine.js';
import type { OthersUse } from './others-use.js';

/** Who of us has memory. `states`: copies of sequences in RAM while a context is replaced. `transient`: what a growing allocator takes for a step. */
export type Owner = 'weights' | 'kv' | 'compute' | 'hostBuffers' | 'runtimeExtra' | 'states' | 'transient';

/** The death that the load line is there to prevent: nothing can catch it on the machines that it stands for. */
export class SimulatedCrash extends Error {
  constructor(
    message: string,
    readonly atMs: number,
  ) {
    super(message);
    this.name = 'SimulatedCrash';
  }
}

const OWNERS: readonly Owner[] = ['weights', 'kv', 'compute', 'hostBuffers', 'runtimeExtra', 'states', 'transient'];
/** RAM left below which the system tells of pressure: warning, critical. Chosen: near what macOS does. */
const WARNING_SHARE = 0.05;
const CRITICAL_SHARE = 0.01;

/** A machine's memory: who has how much, what a reading says, and when it ends in a crash. */
export class SimulatedDevice {
  /** The most that was ever used of the limit that binds, other programs included where they share it. */
  peakUsedBytes = 0;
  /** The most that other programs wanted and did not get. */
  peakShortageBytes = 0;
  private readonly bytes = new Map<Owner, number>(OWNERS.map((owner) => [owner, 0]));

  constructor(
    readonly machine: SimulatedMachine,
    private readonly others: OthersUse,
  ) {}

  /** Of the memory that the device computes in. */
  get limitBytes(): number {
    const { memory, deviceLimitBytes, ramBytes, cgroupLimitBytes } = this.machine;
    if (memory !== 'host') return deviceLimitBytes;
    return cgroupLimitBytes > 0 ? Math.min(ramBytes, cgroupLimitBytes) : ramBytes;
  }

  of(owner: Owner): number {
    return this.bytes.get(owner) ?? 0;
  }

  /** Sets what `owner` has. @throws SimulatedCrash when it grows past a limit. */
  set(owner: Owner, bytes: number, nowMs: number): void {
    const grows = bytes > this.of(owner);
    // Where nothing can be paged out, what others hold is settled before: our growth does not push them out, or none would be too much.
    const heldBefore = this.machine.shortage === 'kill' ? this.othersHeld(nowMs) : 0;
    this.bytes.set(owner, bytes);
    if (grows) this.assertFits(owner, heldBefore, nowMs);
    this.notePeak(this.othersHeld(nowMs));
  }

  /** Looks at what others do meanwhile. @throws SimulatedCrash where a shortage kills. */
  look(nowMs: number): void {
    const shortage = this.othersWanted(nowMs) - this.othersHeld(nowMs);
    this.peakShortageBytes = Math.max(this.peakShortageBytes, shortage);
    if (shortage > 0 && this.machine.shortage === 'kill') {
      throw new SimulatedCrash(`killed: other programs want ${shortage} bytes more than there are`, nowMs);
    }
    this.notePeak(this.othersHeld(nowMs));
  }

  /** Used of the limit that binds. */
  usedBytes(nowMs: number): number {
    return this.usedWith(this.othersHeld(nowMs));
  }

  readings(nowMs: number): Readings {
    const { machine } = this;
    const others = this.othersHeld(nowMs);
    const onDevice = machine.deviceInUseBytes + this.deviceBytes() + (machine.memory === 'discrete' ? others : 0);
    const inRam = machine.ramInUseBytes + this.ramBytes() + (machine.memory === 'discrete' ? 0 : others);
    const available = Math.max(machine.ramBytes - inRam, 0);
    return {
      deviceTotalBytes: machine.deviceLimitBytes,
      deviceFreeBytes: Math.max(machine.deviceLimitBytes - onDevice, 0),
      systemTotalBytes: machine.ramBytes,
      systemAvailableBytes: available,
      cgroupLimitBytes: machine.cgroupLimitBytes,
      cgroupUsedBytes: machine.cgroupLimitBytes > 0 ? this.ramBytes() + others : 0,
      cgroupReclaimableBytes: 0,
      processFootprintBytes: this.ramBytes(),
      pressureLevel: pressureLevel(available / machine.ramBytes),
    };
  }

  private assertFits(owner: Owner, othersBytes: number, nowMs: number): void {
    const { machine } = this;
    const isDiscrete = machine.memory === 'discrete';
    const onDevice = machine.deviceInUseBytes + this.deviceBytes() + (isDiscrete ? othersBytes : 0);
    const inRam = this.ramBytes() + (isDiscrete ? 0 : othersBytes);
    const over = Math.max(
      machine.deviceLimitBytes > 0 ? onDevice - machine.deviceLimitBytes : 0,
      inRam + machine.ramInUseBytes - machine.ramBytes,
      machine.cgroupLimitBytes > 0 ? inRam - machine.cgroupLimitBytes : 0,
    );
    if (over > 0) throw new SimulatedCrash(`${owner} of ${this.of(owner)} bytes goes ${over} over the limit`, nowMs);
  }

  /** Ours in the memory that the device computes in. */
  private deviceBytes(): number {
    if (this.machine.memory === 'host') return 0;
    // Host buffers of Metal are device memory too, to the byte that it counts.
    const host = this.machine.memory === 'unified' ? this.of('hostBuffers') : 0;
    return (
      this.of('weights') + this.of('kv') + this.of('compute') + this.of('runtimeExtra') + this.of('transient') + host
    );
  }

  /** Ours in RAM. */
  private ramBytes(): number {
    if (this.machine.memory === 'discrete') return this.of('hostBuffers') + this.of('states');
    return OWNERS.reduce((sum, owner) => sum + this.of(owner), 0);
  }

  private othersWanted(nowMs: number): number {
    return Math.max(this.others(nowMs), 0);
  }

  private othersHeld(nowMs: number): number {
    const { machine } = this;
    const free =
      machine.memory === 'discrete'
        ? machine.deviceLimitBytes - machine.deviceInUseBytes - this.deviceBytes()
        : Math.min(
            machine.ramBytes - machine.ramInUseBytes - this.ramBytes(),
            machine.cgroupLimitBytes > 0 ? machine.cgroupLimitBytes - this.ramBytes() : Number.POSITIVE_INFINITY,
          );
    return Math.min(this.othersWanted(nowMs), Math.max(free, 0));
  }

  private usedWith(othersBytes: number): number {
    const { machine } = this;
    if (machine.memory === 'unified') return machine.deviceInUseBytes + this.deviceBytes();
    if (machine.memory === 'discrete') return machine.deviceInUseBytes + this.deviceBytes() + othersBytes;
    const isGroup = machine.cgroupLimitBytes > 0;
    return this.ramBytes() + othersBytes + (isGroup ? 0 : machine.ramInUseBytes);
  }

  private notePeak(othersBytes: number): void {
    this.peakUsedBytes = Math.max(this.peakUsedBytes, this.usedWith(othersBytes));
  }
}

function pressureLevel(availableShare: number): number {
  if (availableShare < CRITICAL_SHARE) return 2;
  return availableShare < WARNING_SHARE ? 1 : 0;
}
