/** The package entry `sluice/tanstack/sandbox`: our sandboxes for TanStack's own harness adapters. Needs Node. */
export { type TanStackHandle, type TanStackProvider, UnsupportedCapabilityError } from "./contract.ts";
export { sluiceSandbox, type SluiceSandboxOptions } from "./provider.ts";
export { watchFolder, type WatchFolderOptions } from "./files.ts";
