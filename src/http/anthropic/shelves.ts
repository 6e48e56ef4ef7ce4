import type { Catalog } from "../../catalog/port.ts";
import type { AgentBody } from "../../dialects/anthropic/resources/agent.ts";
import type { CallbackRunBody } from "../../dialects/anthropic/resources/callback.ts";
import type { CredentialBody } from "../../dialects/anthropic/resources/credential.ts";
import type { EnvironmentBody } from "../../dialects/anthropic/resources/environment.ts";
import type { FileBody } from "../../dialects/anthropic/resources/file.ts";
import type { SkillBody, SkillVersionBody } from "../../dialects/anthropic/resources/skill.ts";
import type { VaultBody } from "../../dialects/anthropic/resources/vault.ts";
import type { WorkBody } from "../../dialects/anthropic/resources/work.ts";
import type { SessionBody } from "../../dialects/anthropic/session.ts";
import { Shelf } from "./shelf.ts";

/** Which kinds of documents this dialect keeps, and what each is. */
export interface Shelves {
  readonly agents: Shelf<AgentBody>;
  readonly agentVersions: Shelf<AgentBody>;
  readonly environments: Shelf<EnvironmentBody>;
  readonly vaults: Shelf<VaultBody>;
  readonly credentials: Shelf<CredentialBody>;
  readonly files: Shelf<FileBody>;
  readonly skills: Shelf<SkillBody>;
  readonly skillVersions: Shelf<SkillVersionBody>;
  readonly sessions: Shelf<SessionBody>;
  readonly work: Shelf<WorkBody>;
  /** By session, under `SYSTEM_OWNER`: who reports has no key that would tell whose it is. */
  readonly callbackRuns: Shelf<CallbackRunBody>;
}

export function createShelves(catalog: Catalog): Shelves {
  return {
    agents: new Shelf(catalog, "agent"),
    agentVersions: new Shelf(catalog, "agent_version"),
    environments: new Shelf(catalog, "environment", { notFoundCode: "environment_not_found" }),
    vaults: new Shelf(catalog, "vault"),
    credentials: new Shelf(catalog, "credential"),
    files: new Shelf(catalog, "file"),
    skills: new Shelf(catalog, "skill"),
    skillVersions: new Shelf(catalog, "skill_version"),
    sessions: new Shelf(catalog, "session"),
    work: new Shelf(catalog, "work"),
    callbackRuns: new Shelf(catalog, "callback_run"),
  };
}
