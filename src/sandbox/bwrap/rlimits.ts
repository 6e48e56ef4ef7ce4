import { toUnlimited } from "../host/enclosure.ts";
import type { SandboxRecord } from "../host/folder.ts";

/**
 * Goes before the command inside, where no control group keeps the limits. Inside, because there the kernel counts
 * the processes of this sandbox alone. `data` and not `as`: a runtime reserves far more addresses than it ever uses.
 */
export function toRlimitPrefix(record: SandboxRecord): string[] {
  const { memoryBytes, processes, diskBytes } = record.limits ?? {};
  const missing = new Set(toUnlimited(record));
  const limits = [
    ...(missing.has("memoryBytes") ? [`--data=${memoryBytes}`] : []),
    ...(missing.has("processes") ? [`--nproc=${processes}`] : []),
    ...(diskBytes === undefined ? [] : [`--fsize=${diskBytes}`]),
  ];
  return limits.length === 0 ? [] : ["prlimit", ...limits, "--"];
}
