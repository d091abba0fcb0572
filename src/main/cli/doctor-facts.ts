/** What `plimsoll doctor` looks at. Gathered by doctor-*-facts.ts, judged by doctor-checks.ts. */
import type { DeviceInfo, Readings } from '../../shared/engine.js';

export interface SystemFacts {
  nodeVersion: string;
  /** linux-x64, darwin-arm64, … */
  platform: string;
  release: string;
  cpuModel: string;
  /** Logical processors that this process may run on. */
  cores: number;
  /** Processors' worth of time that the cgroup grants; null: no quota. */
  cpuQuotaCores: number | null;
  /** Files and sockets that a process may have open; null: no limit, or not known. */
  openFilesMax: number | null;
  /** The kernel's setting of transparent huge pages; null: none here. */
  hugePages: string | null;
  /** An NVIDIA driver is loaded, whether the engine can use it or not. */
  hasNvidiaDriver: boolean;
}

export type EngineFacts =
  | {
      problem: null;
      folder: string;
      version: string;
      devices: DeviceInfo[];
      readings: Readings;
      /** iogpu.wired_limit_mb; 0: the system decides. */
      gpuWiredLimitBytes: number;
    }
  | { problem: string };

export interface StorageFacts {
  cacheFolder: string;
  /** Why nothing can be written there; null: it can. */
  problem: string | null;
  freeBytes: number | null;
}

export interface ModelFacts {
  name: string;
  /** null: not downloaded. */
  path: string | null;
  weightsBytes: number | null;
  /** Of the download that is still to come, where known. */
  downloadBytes: number | null;
  isOffline: boolean;
  /** Why it cannot be served; null: nothing is known against it. */
  problem: string | null;
  /** Whether it fits into what is free now, in words; null: not known. */
  fit: { fits: boolean; sentence: string } | null;
  /** A lowered line that is remembered for it, in words. */
  loweredLine: string | null;
}

export interface ServerFacts {
  /** host:port. */
  place: string;
  /** Why it cannot listen there. */
  problem: string | null;
}

export interface DoctorFacts {
  system: SystemFacts;
  engine: EngineFacts;
  /** Devices that `--device` names, as typed; empty: the engine chooses. */
  devices: readonly string[];
  storage: StorageFacts;
  model: ModelFacts;
  server: ServerFacts;
}
