import { z } from "zod";
import { refuse } from "./resource.ts";

const Sent = z.string().regex(/^\P{Cs}+$/u, "unpaired surrogates cannot be sent");
const Secret = Sent.min(1).max(65_536);
const ServerUrl = z.url({ protocol: /^https?$/, error: "expected an http or https URL" });
const Moment = z.iso.datetime({ offset: true, error: "expected a time in RFC 3339" });

export const Networking = z.discriminatedUnion("type", [
  z.object({ type: z.literal("unrestricted") }),
  z.object({
    type: z.literal("limited"),
    allowed_hosts: z
      .array(
        z
          .string()
          .regex(
            /^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/,
            "a host name, an IPv4 address or *.domain, without scheme, port or path",
          ),
      )
      .min(1)
      .max(16),
  }),
]);
const Injection = z.object({ body: z.boolean().nullish(), header: z.boolean().nullish() });

const EndpointAuth = z.discriminatedUnion("type", [
  z.object({ type: z.literal("none") }),
  z.object({ type: z.literal("client_secret_basic"), client_secret: Secret }),
  z.object({ type: z.literal("client_secret_post"), client_secret: Secret }),
]);

export const CreateAuth = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("mcp_oauth"),
    mcp_server_url: ServerUrl,
    access_token: Secret,
    expires_at: Moment.nullish(),
    refresh: z
      .object({
        client_id: Sent.min(1),
        refresh_token: Secret,
        token_endpoint: ServerUrl,
        token_endpoint_auth: EndpointAuth,
        resource: z.string().nullish(),
        scope: z.string().nullish(),
      })
      .nullish(),
  }),
  z.object({ type: z.literal("static_bearer"), mcp_server_url: ServerUrl, token: Secret }),
  z.object({
    type: z.literal("environment_variable"),
    secret_name: z
      .string()
      .regex(
        /^[A-Za-z_][A-Za-z0-9_]{0,254}$/,
        "a name of an environment variable: letters, digits, underscores",
      ),
    secret_value: Secret,
    networking: Networking,
    injection_location: Injection.nullish(),
  }),
]);
export type CreateAuth = z.infer<typeof CreateAuth>;

const SecretUpdate = z.object({
  type: z.enum(["client_secret_basic", "client_secret_post", "none"]),
  client_secret: Secret.nullish(),
});

export const UpdateAuth = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("mcp_oauth"),
    mcp_server_url: z.string().optional(),
    access_token: Secret.nullish(),
    expires_at: Moment.nullish(),
    refresh: z
      .object({
        refresh_token: Secret.nullish(),
        scope: z.string().nullish(),
        token_endpoint_auth: SecretUpdate.nullish(),
      })
      .nullish(),
  }),
  z.object({
    type: z.literal("static_bearer"),
    mcp_server_url: z.string().optional(),
    token: Secret.nullish(),
  }),
  z.object({
    type: z.literal("environment_variable"),
    secret_name: z.string().optional(),
    secret_value: Secret.nullish(),
    networking: Networking.nullish(),
    injection_location: Injection.nullish(),
  }),
]);
export type UpdateAuth = z.infer<typeof UpdateAuth>;

export type PublicAuth =
  | {
      readonly type: "mcp_oauth";
      readonly mcp_server_url: string;
      readonly expires_at: string | null;
      readonly refresh: PublicRefresh | null;
    }
  | { readonly type: "static_bearer"; readonly mcp_server_url: string }
  | {
      readonly type: "environment_variable";
      readonly secret_name: string;
      readonly networking: z.infer<typeof Networking>;
      readonly injection_location: { readonly body: boolean; readonly header: boolean };
    };

export interface PublicRefresh {
  readonly client_id: string;
  readonly token_endpoint: string;
  readonly token_endpoint_auth: { readonly type: "none" | "client_secret_basic" | "client_secret_post" };
  readonly resource: string | null;
  readonly scope: string | null;
}

/** The secrets of a credential. They are stored encrypted, and the credential's type decides which of them exist. */
export interface CredentialSecrets {
  readonly access_token?: string;
  readonly refresh_token?: string;
  readonly client_secret?: string;
  readonly token?: string;
  readonly secret_value?: string;
}

export interface SplitAuth {
  readonly auth: PublicAuth;
  readonly secrets: CredentialSecrets;
}

/** Separates the secrets from the public fields. */
export function splitAuth(given: CreateAuth, now: number): SplitAuth {
  if (given.type === "static_bearer") {
    const { type, mcp_server_url, token } = given;
    return { auth: { type, mcp_server_url }, secrets: { token } };
  }
  if (given.type === "environment_variable") {
    const { type, secret_name, secret_value, networking, injection_location } = given;
    const injection = resolveInjection(injection_location, { body: false, header: true });
    return {
      auth: { type, secret_name, networking, injection_location: injection },
      secrets: { secret_value },
    };
  }
  const { type, mcp_server_url, access_token, expires_at, refresh } = given;
  const endpoint = refresh?.token_endpoint_auth;
  const publicRefresh = refresh && {
    client_id: refresh.client_id,
    token_endpoint: refresh.token_endpoint,
    token_endpoint_auth: { type: refresh.token_endpoint_auth.type },
    resource: refresh.resource ?? null,
    scope: refresh.scope || null,
  };
  return {
    auth: { type, mcp_server_url, expires_at: toFuture(expires_at, now), refresh: publicRefresh ?? null },
    secrets: {
      access_token,
      ...(refresh && { refresh_token: refresh.refresh_token }),
      ...(endpoint && endpoint.type !== "none" && { client_secret: endpoint.client_secret }),
    },
  };
}

/** Updates a credential. Its type, its server and its variable's name cannot change; an absent secret stays. */
export function updateAuth(stored: SplitAuth, given: UpdateAuth, now: number): SplitAuth {
  const { auth, secrets } = stored;
  if (given.type !== auth.type) throw immutable("type", auth.type);
  if (given.type === "static_bearer" && auth.type === given.type) {
    assertKept("mcp_server_url", given.mcp_server_url, auth.mcp_server_url);
    return { auth, secrets: { ...secrets, ...(given.token && { token: given.token }) } };
  }
  if (given.type === "environment_variable" && auth.type === given.type) {
    assertKept("secret_name", given.secret_name, auth.secret_name);
    const injection_location = resolveInjection(given.injection_location, auth.injection_location);
    return {
      auth: { ...auth, injection_location, networking: given.networking ?? auth.networking },
      secrets: { ...secrets, ...(given.secret_value && { secret_value: given.secret_value }) },
    };
  }
  // The other types have returned above. The compiler needs the check to narrow both types.
  if (given.type !== "mcp_oauth" || auth.type !== "mcp_oauth") throw immutable("type", auth.type);
  assertKept("mcp_server_url", given.mcp_server_url, auth.mcp_server_url);
  const { refresh } = given;
  if (refresh && !auth.refresh)
    throw refuse("auth.refresh: the credential was created without one. Create another credential.");
  const secret = refresh?.token_endpoint_auth?.client_secret;
  if (secret && auth.refresh?.token_endpoint_auth.type === "none")
    throw refuse("auth.refresh.token_endpoint_auth: the credential's token endpoint takes no client secret.");
  return {
    auth: {
      ...auth,
      expires_at: given.expires_at === undefined ? auth.expires_at : toFuture(given.expires_at, now),
      refresh: auth.refresh && {
        ...auth.refresh,
        scope: refresh?.scope === undefined ? auth.refresh.scope : refresh.scope || null,
      },
    },
    secrets: {
      ...secrets,
      ...(given.access_token && { access_token: given.access_token }),
      ...(refresh?.refresh_token && { refresh_token: refresh.refresh_token }),
      ...(secret && { client_secret: secret }),
    },
  };
}

function resolveInjection(
  given: z.infer<typeof Injection> | null | undefined,
  otherwise: { body: boolean; header: boolean },
): { body: boolean; header: boolean } {
  const resolved = { body: given?.body ?? otherwise.body, header: given?.header ?? otherwise.header };
  if (!resolved.body && !resolved.header)
    throw refuse("auth.injection_location: at least one of body and header has to be true.");
  return resolved;
}

function toFuture(given: string | null | undefined, now: number): string | null {
  if (given === undefined || given === null) return null;
  if (Date.parse(given) <= now) throw refuse("auth.expires_at: expected a time in the future.");
  return given;
}

function assertKept(field: string, given: string | undefined, stored: string): void {
  if (given !== undefined && given !== stored) throw immutable(field, stored);
}

function immutable(field: string, stored: string): Error {
  return refuse(`auth.${field}: it is ${stored} and cannot be changed. Create another credential.`);
}
