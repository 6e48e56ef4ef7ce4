import type { SandboxProvider } from "../port.ts";
import { CloudProvider } from "../cloud/provider.ts";
import { E2bVendor, type E2bOptions } from "./vendor.ts";

export interface E2bProviderOptions extends E2bOptions {
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
}

/** Runs each sandbox on a machine of E2B, or of a cloud that speaks its API. */
export function createE2bProvider(options: E2bProviderOptions): SandboxProvider {
  return new CloudProvider(new E2bVendor(options), options.records);
}
