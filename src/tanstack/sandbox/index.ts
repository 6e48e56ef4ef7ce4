/** The package entry `sluice/tanstack/sandbox`: our sandboxes for TanStack's own harness adapters. Needs Node. */
export type { TanStackHandle, TanStackProvider } from "./contract.ts";
export { sluiceSandbox, type SluiceSandboxOptions } from "./provider.ts";
export { UnsupportedCapabilityError } from "./unsupported.ts";
export { watchFolder, type WatchFolderOptions } from "./watching.ts";
