/** How much processor time the cgroup grants: the engine's threads stop and start all the time where there are more of them than that. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Levels of groups looked at. Chosen: container in a pod in a slice is five. */
const LEVELS_MAX = 32;

/** Processors, by the strictest group of this process and above it; null: no quota, or no cgroups. `root` is put before every path: for tests. */
export function cpuQuotaCores(root = '/'): number | null {
  const quotas = controlGroups(readText(join(root, 'proc/self/cgroup'))).flatMap(({ folders, group, read }) =>
    folders.flatMap((folder) => pathsUp(group).map((path) => read(join(root, folder, path)))),
  );
  const known = quotas.filter((quota): quota is number => quota !== null);
  return known.length > 0 ? Math.min(...known) : null;
}

interface ControlGroup {
  folders: readonly string[];
  group: string;
  read: (folder: string) => number | null;
}

function controlGroups(text: string | null): ControlGroup[] {
  return (text ?? '').split('\n').flatMap((line): ControlGroup[] => {
    const [, controllers, group] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (group === undefined) return [];
    if (controllers === '') return [{ folders: ['sys/fs/cgroup', 'sys/fs/cgroup/unified'], group, read: quotaOfV2 }];
    if (!controllers.split(',').includes('cpu')) return [];
    return [{ folders: ['sys/fs/cgroup/cpu', `sys/fs/cgroup/${controllers}`], group, read: quotaOfV1 }];
  });
}

/** A group and all above it. Inside a container the named ones may be hidden, and the root is the container's own. */
function pathsUp(group: string): string[] {
  const paths: string[] = [];
  for (let path = group; paths.length < LEVELS_MAX; path = dirname(path)) {
    paths.push(path);
    if (path === '/') break;
  }
  return paths;
}

/** cpu.max: "200000 100000" or "max 100000", microseconds in each period. */
function quotaOfV2(folder: string): number | null {
  const [quota, period] = (readText(join(folder, 'cpu.max')) ?? '').trim().split(/\s+/);
  return share(quota, period);
}

/** −1 where there is none. */
function quotaOfV1(folder: string): number | null {
  return share(readText(join(folder, 'cpu.cfs_quota_us')), readText(join(folder, 'cpu.cfs_period_us')));
}

function share(quota: string | null | undefined, period: string | null | undefined): number | null {
  const cores = Number.parseInt(quota ?? '', 10) / Number.parseInt(period ?? '', 10);
  return Number.isFinite(cores) && cores > 0 ? cores : null;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
