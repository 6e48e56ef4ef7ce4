export { createBwrapProvider, type BwrapProviderOptions } from "./bwrap/provider.ts";
export { createCheckpoints, type CheckpointsOptions } from "./checkpoint/checkpoints.ts";
export { createFolderStorage } from "./checkpoint/storage/folder.ts";
export { DEFAULT_EXCLUDES } from "./checkpoint/exclusion.ts";
export type {
  CheckpointExcludes,
  CheckpointInfo,
  CheckpointOptions,
  CheckpointProgress,
  CheckpointRestored,
  CheckpointRoots,
  Checkpoints,
  CheckpointStorage,
  CheckpointTaken,
  Collected,
  RestoreOptions,
} from "./checkpoint/port.ts";
export { createS3Storage, type S3StorageOptions } from "./checkpoint/storage/s3.ts";
export { filesDiff } from "./diff/files-diff.ts";
export { workspaceDiff, type WorkspaceDiff, type WorkspaceDiffOptions } from "./diff/workspace-diff.ts";
export { permits } from "./egress/allow-list.ts";
export { chooseProvider, defaultProviders, hostProviders, type ChosenProvider } from "./choose.ts";
export { createLocalProvider, type LocalProviderOptions } from "./local/provider.ts";
export type {
  Detected,
  ExecOptions,
  ExecResult,
  FileEntry,
  HostProvider,
  HostSandbox,
  NamedProcess,
  NetworkPolicy,
  Sandbox,
  SandboxClaim,
  SandboxFiles,
  SandboxLimits,
  SandboxPaths,
  SandboxProcesses,
  SandboxProvider,
  SandboxSpec,
  SandboxState,
  SandboxTree,
  SpawnedProcess,
  TreeWatch,
  TreeWatchOptions,
} from "./port.ts";
export type {
  FileChange,
  FileHook,
  FileHookEvent,
  FileHookRunner,
  FileHooks,
  WatchWarning,
} from "./watch/changes.ts";
export { createFileHookRunner, type FileHookRunnerOptions } from "./watch/hooks.ts";
export type { TreeSnapshot } from "./watch/tree.ts";
export { createWatcher, type Watcher, type WatcherOptions } from "./watch/watcher.ts";
