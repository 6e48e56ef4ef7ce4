export { createLocalProvider, type LocalProviderOptions } from "./local/provider.ts";
export type {
  ExecOptions,
  ExecResult,
  FileEntry,
  Sandbox,
  SandboxFiles,
  SandboxPaths,
  SandboxProvider,
  SandboxSpec,
} from "./port.ts";
