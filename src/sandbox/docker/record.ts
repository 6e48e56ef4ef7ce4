import type { SandboxRecord } from "../host/folder.ts";
import type { NetworkPolicy, SandboxLimits } from "../port.ts";

/** What has to be known of a container's sandbox after a restart, beside what is known of any. */
export interface DockerRecord extends SandboxRecord {
  readonly image: string;
  readonly network: NetworkPolicy;
  readonly limits: SandboxLimits;
  readonly shortcomings: readonly string[];
}
