import { CloudProvider } from "../cloud/provider.ts";
import type { SandboxProvider } from "../port.ts";
import { VercelVendor, type VercelOptions } from "./vendor.ts";

export interface VercelProviderOptions extends VercelOptions {
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
}

/** Runs each sandbox on a machine of Vercel. */
export function createVercelProvider(options: VercelProviderOptions): SandboxProvider {
  return new CloudProvider(new VercelVendor(options), options.records);
}
