import type { Readings } from '../engine.js';
import { GIB, MIB } from './constants.js';
import type { DeviceMemory } from './headroom.js';

/**
 * Where a limit comes from. *reported*: what the driver or Metal said on such machines, as their users posted it. *rule*: nobody's
 * report was at hand, three quarters of RAM was taken, which is below every report of machines of that size.
 */
export type ProfileSource = 'reported' | 'rule';

export interface DeviceProfile {
  name: string;
  description: string;
  memory: DeviceMemory;
  ramBytes: number;
  /** What the device may use; the lowest that was reported, since it differs between system versions. */
  limitBytes: number;
  /** The highest that was reported for this memory size, where it differs. */
  highestLimitBytes: number;
  source: ProfileSource;
  sourceNote: string;
}

interface MacSize {
  ramGib: number;
  limitBytes: number;
  highestLimitBytes: number;
  source: ProfileSource;
  chips: readonly string[];
}

/** Metal's recommendedMaxWorkingSetSize by memory size: two thirds of RAM up to 32 GB and three quarters above on most versions, more
 *  on newer ones. It is data, because no rule holds for all. */
const MACS: readonly MacSize[] = [
  mac(8, 5_726_623_061, 5_726_623_061, 'reported', ['m1', 'm2', 'm3']),
  mac(16, 11_453_246_122, 14_300_000_000, 'reported', ['m1', 'm2', 'm3', 'm4', 'm5', 'm1-pro', 'm2-pro']),
  mac(18, 12_884_901_888, 12_884_901_888, 'reported', ['m3-pro']),
  mac(24, 17_179_869_184, 19_069_667_328, 'reported', ['m2', 'm3', 'm4', 'm5', 'm4-pro', 'm5-pro']),
  mac(32, 22_906_492_245, 26_800_595_763, 'reported', ['m4', 'm5', 'm1-pro', 'm2-pro', 'm1-max', 'm2-max']),
  mac(36, 28_991_029_248, 28_991_029_248, 'reported', ['m3-pro', 'm3-max', 'm4-max']),
  mac(48, 38_654_705_664, 40_200_896_512, 'reported', ['m3-max', 'm4-pro', 'm4-max', 'm5-pro']),
  mac(64, 51_539_607_552, 55_662_780_416, 'reported', [
    'm1-max',
    'm2-max',
    'm3-max',
    'm4-pro',
    'm4-max',
    'm1-ultra',
    'm2-ultra',
  ]),
  mac(96, 77_309_411_328, 77_309_411_328, 'reported', ['m2-max', 'm3-max', 'm3-ultra']),
  mac(128, 103_079_215_104, 115_448_725_504, 'reported', ['m3-max', 'm4-max', 'm5-max', 'm1-ultra', 'm2-ultra']),
  mac(192, 154_618_822_656, 154_618_822_656, 'reported', ['m2-ultra']),
  mac(256, 206_158_430_208, 239_000_000_000, 'rule', ['m3-ultra']),
  mac(512, 412_316_860_416, 412_316_860_416, 'rule', ['m3-ultra']),
];

function mac(ramGib: number, limit: number, highest: number, source: ProfileSource, chips: readonly string[]): MacSize {
  return { ramGib, limitBytes: limit, highestLimitBytes: highest, source, chips };
}

/** Memory in MiB as nvidia-smi shows it. */
const NVIDIA: ReadonlyArray<readonly [name: string, mib: number]> = [
  ['rtx-3060', 12_288],
  ['rtx-3070', 8_192],
  ['rtx-3080', 10_240],
  ['rtx-3090', 24_576],
  ['rtx-4060', 8_188],
  ['rtx-4060-ti-16gb', 16_380],
  ['rtx-4070', 12_282],
  ['rtx-4070-ti-super', 16_376],
  ['rtx-4080', 16_376],
  ['rtx-4090', 24_564],
  ['rtx-5060-ti-16gb', 16_311],
  ['rtx-5070', 12_227],
  ['rtx-5070-ti', 16_303],
  ['rtx-5080', 16_303],
  ['rtx-5090', 32_607],
  ['rtx-a6000', 49_140],
  ['t4', 15_360],
  ['v100-32gb', 32_768],
  ['a10', 23_028],
  ['l4', 23_034],
  ['l40s', 46_068],
  ['a100-40gb', 40_960],
  ['a100-80gb', 81_920],
  ['h100-80gb', 81_559],
  ['h200', 143_771],
];

/** RAM beside a card of a profile: host buffers are some MiB, so it never binds. Chosen. */
const RAM_BESIDE_CARD_BYTES = 32 * GIB;
/** Device memory that the driver and its context hold before anything is loaded. Measured 300 to 600 MiB; chosen. */
const CARD_IN_USE_BYTES = 512 * MIB;
/** What macOS and open programs use of a profile's RAM. Chosen: a fifth, between 3 and 12 GiB: a browser and an editor are open. */
const MAC_IN_USE_SHARE = 0.2;
const MAC_IN_USE_MIN_BYTES = 3 * GIB;
const MAC_IN_USE_MAX_BYTES = 12 * GIB;

export const PROFILES: readonly DeviceProfile[] = [...MACS.flatMap(macProfiles), ...NVIDIA.map(cardProfile)];

function macProfiles(size: MacSize): DeviceProfile[] {
  return size.chips.map((chip) => ({
    name: `${chip}-${size.ramGib}gb`,
    description: `Apple ${chipName(chip)}, ${size.ramGib} GB`,
    memory: 'unified',
    ramBytes: size.ramGib * GIB,
    limitBytes: size.limitBytes,
    highestLimitBytes: size.highestLimitBytes,
    source: size.source,
    sourceNote:
      size.source === 'reported'
        ? 'lowest recommendedMaxWorkingSetSize that users of this memory size posted'
        : 'three quarters of RAM; not reported for this memory size as a lowest value',
  }));
}

function chipName(chip: string): string {
  return chip.replace('m', 'M').replace(/-(\w)/, (_, letter: string) => ` ${letter.toUpperCase()}`);
}

function cardProfile([name, mib]: readonly [string, number]): DeviceProfile {
  return {
    name,
    description: `NVIDIA ${name.toUpperCase().replaceAll('-', ' ')}`,
    memory: 'discrete',
    ramBytes: RAM_BESIDE_CARD_BYTES,
    limitBytes: mib * MIB,
    highestLimitBytes: mib * MIB,
    source: 'reported',
    sourceNote: 'total memory as nvidia-smi shows it',
  };
}

/** Profile of that name; null: there is none. */
export function findProfile(name: string): DeviceProfile | null {
  return PROFILES.find((profile) => profile.name === name.toLowerCase()) ?? null;
}

/** Readings of such a machine with nothing loaded. */
export function readingsOfProfile(profile: DeviceProfile): Readings {
  const isMac = profile.memory === 'unified';
  const share = Math.round(profile.ramBytes * MAC_IN_USE_SHARE);
  const macInUse = Math.min(Math.max(share, MAC_IN_USE_MIN_BYTES), MAC_IN_USE_MAX_BYTES);
  return {
    deviceTotalBytes: profile.limitBytes,
    deviceFreeBytes: profile.limitBytes - (isMac ? 0 : CARD_IN_USE_BYTES),
    systemTotalBytes: profile.ramBytes,
    systemAvailableBytes: profile.ramBytes - (isMac ? macInUse : MAC_IN_USE_MIN_BYTES),
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: 0,
    pressureLevel: 0,
  };
}
