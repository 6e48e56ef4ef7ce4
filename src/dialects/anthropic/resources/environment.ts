import type { BetaEnvironment } from "@anthropic-ai/sdk/resources/beta/environments";
import { z } from "zod";
import {
  type Immutable,
  Metadata,
  MetadataPatch,
  patchMetadata,
  refuse,
  type Resource,
  type Stored,
  toMetadata,
  toResource,
  unsupported,
} from "./resource.ts";

const MANAGERS = ["apt", "cargo", "gem", "go", "npm", "pip"] as const;
type Manager = (typeof MANAGERS)[number];

const packages = z.array(z.string().min(1)).nullish();

const NetworkingParams = z.discriminatedUnion("type", [
  z.object({ type: z.literal("unrestricted") }),
  z.object({
    type: z.literal("limited"),
    allowed_hosts: z.array(z.string().min(1)).nullish(),
    allow_mcp_servers: z.boolean().nullish(),
    allow_package_managers: z.boolean().nullish(),
  }),
]);

const PackagesParams = z.object({
  apt: packages,
  cargo: packages,
  gem: packages,
  go: packages,
  npm: packages,
  pip: packages,
});

const ConfigParams = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("cloud"),
    networking: NetworkingParams.nullish(),
    packages: PackagesParams.nullish(),
  }),
  z.object({ type: z.literal("self_hosted") }),
]);
type ConfigParams = z.infer<typeof ConfigParams>;

const Name = z.string().min(1).max(256);
const shared = {
  config: ConfigParams.nullish(),
  description: z.string().max(2048).nullish(),
  scope: z.enum(["organization", "account"]).nullish(),
};

export const CreateEnvironment = z.object({ name: Name, metadata: Metadata.nullish(), ...shared });
export type CreateEnvironment = z.infer<typeof CreateEnvironment>;

export const UpdateEnvironment = z.object({
  name: Name.nullish(),
  metadata: MetadataPatch.nullish(),
  ...shared,
});
export type UpdateEnvironment = z.infer<typeof UpdateEnvironment>;

export type Networking =
  | { readonly type: "unrestricted" }
  | {
      readonly type: "limited";
      readonly allowed_hosts: readonly string[];
      readonly allow_mcp_servers: boolean;
      readonly allow_package_managers: boolean;
    };

export interface CloudConfig {
  readonly type: "cloud";
  readonly networking: Networking;
  readonly packages: Readonly<Record<Manager, readonly string[]>> & { readonly type: "packages" };
}

export type EnvironmentConfig = CloudConfig | { readonly type: "self_hosted" };

export interface EnvironmentBody {
  readonly name: string;
  readonly description: string | null;
  readonly config: EnvironmentConfig;
  readonly metadata: Metadata;
  readonly scope: "organization";
  readonly archived_at: string | null;
}

export type Environment = Resource<"environment", EnvironmentBody>;

export function toEnvironment(stored: Stored<EnvironmentBody>): Environment {
  return toResource("environment", stored) satisfies Immutable<BetaEnvironment>;
}

export function createEnvironmentBody(given: CreateEnvironment): EnvironmentBody {
  assertScope(given);
  return {
    name: given.name,
    description: given.description ?? null,
    config: resolveConfig(given.config ?? { type: "cloud" }),
    metadata: toMetadata(given.metadata),
    scope: "organization",
    archived_at: null,
  };
}

/**
 * An absent field stays, at every level. Null leaves `name`, `config` and `metadata` as they are, empties the
 * description, removes a key of the metadata, and restores the default of a field in `config`.
 */
export function updateEnvironmentBody(stored: EnvironmentBody, given: UpdateEnvironment): EnvironmentBody {
  if (stored.archived_at !== null)
    throw refuse("The environment is archived, so it cannot be updated.", "environment_archived");
  assertScope(given);
  const { config } = given;
  if (config && config.type !== stored.config.type) {
    const detail = `config.type: the environment is ${stored.config.type}, which cannot become ${config.type}. Create another one.`;
    throw refuse(detail, "invalid_config_type_change");
  }
  return {
    ...stored,
    name: given.name ?? stored.name,
    description: given.description === undefined ? stored.description : given.description,
    config: config ? resolveConfig(config, stored.config) : stored.config,
    metadata: patchMetadata(stored.metadata, given.metadata, { emptyRemoves: true }),
  };
}

function resolveConfig(given: ConfigParams, stored?: EnvironmentConfig): EnvironmentConfig {
  if (given.type === "self_hosted") return { type: "self_hosted" };
  const before = stored?.type === "cloud" ? stored : undefined;
  const config: CloudConfig = {
    type: "cloud",
    networking: resolveNetworking(given.networking, before?.networking),
    packages: resolvePackages(given.packages, before?.packages),
  };
  const { networking } = config;
  const isClosed = networking.type === "limited" && !networking.allow_package_managers;
  if (isClosed && MANAGERS.some((manager) => config.packages[manager].length > 0))
    throw refuse("config.packages: limited networking needs allow_package_managers to be true for packages.");
  return config;
}

function resolveNetworking(
  given: z.infer<typeof NetworkingParams> | null | undefined,
  before?: Networking,
): Networking {
  if (given === undefined && before) return before;
  if (!given || given.type === "unrestricted") return { type: "unrestricted" };
  const kept = before?.type === "limited" ? before : undefined;
  const { allowed_hosts, allow_mcp_servers, allow_package_managers } = given;
  return {
    type: "limited",
    allowed_hosts: (allowed_hosts === undefined ? kept?.allowed_hosts : allowed_hosts) ?? [],
    allow_mcp_servers:
      (allow_mcp_servers === undefined ? kept?.allow_mcp_servers : allow_mcp_servers) ?? false,
    allow_package_managers:
      (allow_package_managers === undefined ? kept?.allow_package_managers : allow_package_managers) ?? false,
  };
}

function resolvePackages(
  given: z.infer<typeof PackagesParams> | null | undefined,
  before?: CloudConfig["packages"],
): CloudConfig["packages"] {
  const kept = given === null ? undefined : before;
  const of = (manager: Manager): readonly string[] =>
    (given?.[manager] === undefined ? kept?.[manager] : given[manager]) ?? [];
  const lists = Object.fromEntries(MANAGERS.map((manager) => [manager, of(manager)]));
  return { type: "packages", ...(lists as Record<Manager, readonly string[]>) };
}

function assertScope({ scope }: { scope?: "organization" | "account" | null | undefined }): void {
  if (scope === "account") throw unsupported("scope: account is");
}
