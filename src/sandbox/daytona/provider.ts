import { CloudProvider } from "../cloud/provider.ts";
import type { SandboxProvider } from "../port.ts";
import { DaytonaVendor, type DaytonaOptions } from "./vendor.ts";

export interface DaytonaProviderOptions extends DaytonaOptions {
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
}

/** Runs each sandbox on a machine of Daytona, or of a server of one's own that speaks its API. */
export function createDaytonaProvider(options: DaytonaProviderOptions): SandboxProvider {
  return new CloudProvider(new DaytonaVendor(options), options.records);
}
