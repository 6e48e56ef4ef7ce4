import { join } from "node:path";
import { SluiceError } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import { findHarness } from "../harness/registry.ts";
import { DAMAGED_AGENT } from "../log/port.ts";
import { createFolderStorage } from "../sandbox/index.ts";
import { parsePrivateNames } from "../sandbox/bridge/hostPattern.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { createToolBridge, type ToolRuns } from "../tools/index.ts";
import { hostKeys } from "./credentials.ts";
import { DEFAULT_LIMITS, type SessionDeps } from "./deps.ts";
import type { EngineOptions } from "./engineOptions.ts";
import { Owner } from "./owner.ts";
import { decideDefault, findProvider } from "./providers.ts";
import { RestingAgents } from "./restingAgents.ts";
import { createShelves } from "./shelves.ts";
import { DEFAULT_STARTS_AT_ONCE, StartQueue } from "./startQueue.ts";

/** What only the running engine can say. */
interface Surroundings extends Pick<SessionDeps, "draining" | "onStart" | "count" | "onGivenUp"> {
  readonly harnesses: readonly Harness[];
  readonly providers: readonly SandboxProvider[];
  readonly runs: ToolRuns;
}

/** All that sessions need, from what the engine was started with. */
export function createSessionDeps(options: EngineOptions, around: Surroundings): SessionDeps {
  const { dataDir } = options;
  const { harnesses, providers, runs, ...rest } = around;
  const { logger = () => {}, defaultSandbox: named } = options;
  const ourselves = new Owner(dataDir);
  return {
    ...rest,
    log: options.log,
    ourselves,
    owner: ourselves.name,
    spoolRoot: join(dataDir, "spools"),
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    logger,
    defaultSandbox: decideDefault(providers, { named, logger }),
    secrets: new Map([...hostKeys(harnesses), ...(options.secrets ?? [])]),
    fileHooks: options.fileHooks,
    recorder: options.recorder,
    equip: options.equip ?? (async (_session, spec) => spec),
    lend: options.lend ?? (async () => undefined),
    privateHosts: toPrivateHosts(options.privateHosts),
    mcpVerdict: options.mcpVerdict ?? (() => undefined),
    tools: createToolBridge({ folder: join(dataDir, "tools"), runs }),
    checkpoints: createShelves({
      dataDir,
      storage: options.checkpointStorage ?? createFolderStorage(join(dataDir, "checkpoints")),
      find: options.shelves,
    }),
    starts: new StartQueue(options.startsAtOnce ?? DEFAULT_STARTS_AT_ONCE),
    resting: new RestingAgents(options.restingAgents),
    harness: (spec) => {
      if (spec.agent === DAMAGED_AGENT) throw specDamaged();
      return findHarness(spec.agent, harnesses);
    },
    provider: (id) => findProvider(id, providers),
  };
}

function specDamaged(): SluiceError {
  const detail = "the settings of this session are damaged in the store; read its events, or delete it";
  return new SluiceError("internal", detail);
}

/** A name that cannot be one is said when the engine starts. */
function toPrivateHosts(names: readonly string[] = []): readonly string[] {
  parsePrivateNames(names);
  return names;
}
