import { z } from "zod";
import { Networking } from "../resources/credential-auth.ts";
import { Metadata } from "../resources/resource.ts";
import { time } from "./agents.ts";

export const File = z.object({
  id: z.string(),
  type: z.literal("file"),
  filename: z.string(),
  mime_type: z.string(),
  size_bytes: z.int(),
  downloadable: z.boolean(),
  created_at: time,
  expires_at: time.nullable(),
  scope: z.object({ type: z.literal("session"), id: z.string() }).nullable(),
});

export const FileList = z.object({
  data: z.array(File),
  next_page: z.string().nullable().describe("the cursor of the next page, for `page`"),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
});

/** A form with one file. */
export const FileForm = z.object({
  file: z.file(),
  expires_in_seconds: z.string().optional().describe("3600 to 7776000"),
});

export const Skill = z.object({
  id: z.string(),
  type: z.literal("skill"),
  display_name: z.string(),
  latest_version_id: z.string(),
  source: z.object({ type: z.string() }),
  created_at: time,
  updated_at: time,
});

export const SkillVersion = z.object({
  id: z.string(),
  type: z.literal("skill_version"),
  skill_id: z.string(),
  name: z.string(),
  description: z.string(),
  created_at: time,
});

/** A form with the files of one folder. */
export const SkillForm = z.object({
  files: z.array(z.file()).describe("named with their folder, such as my-skill/SKILL.md"),
  display_name: z.string().optional(),
});

export const Vault = z.object({
  id: z.string(),
  type: z.literal("vault"),
  display_name: z.string(),
  metadata: Metadata,
  created_at: time,
  updated_at: time,
  archived_at: time.nullable(),
});

export const Credential = z.object({
  id: z.string(),
  type: z.literal("vault_credential"),
  vault_id: z.string(),
  display_name: z.string().nullable(),
  metadata: Metadata,
  auth: z
    .discriminatedUnion("type", [
      z.object({
        type: z.literal("mcp_oauth"),
        mcp_server_url: z.string(),
        expires_at: time.nullable(),
        refresh: z
          .object({
            client_id: z.string(),
            token_endpoint: z.string(),
            token_endpoint_auth: z.object({
              type: z.enum(["none", "client_secret_basic", "client_secret_post"]),
            }),
            resource: z.string().nullable(),
            scope: z.string().nullable(),
          })
          .nullable(),
      }),
      z.object({ type: z.literal("static_bearer"), mcp_server_url: z.string() }),
      z.object({
        type: z.literal("environment_variable"),
        secret_name: z.string(),
        networking: Networking,
        injection_location: z.object({ body: z.boolean(), header: z.boolean() }),
      }),
    ])
    .describe("without its secrets"),
  created_at: time,
  updated_at: time,
  archived_at: time.nullable(),
});

const HttpResponse = z.object({ status_code: z.int(), content_type: z.string(), body: z.string() });

export const CredentialValidation = z.object({
  type: z.literal("vault_credential_validation"),
  credential_id: z.string(),
  vault_id: z.string(),
  status: z.enum(["valid", "invalid", "unknown"]),
  has_refresh_token: z.boolean(),
  mcp_probe: z.object({ method: z.string(), http_response: HttpResponse.nullable() }).nullable(),
  refresh: z
    .object({
      status: z.enum(["succeeded", "failed", "connect_error", "no_refresh_token"]),
      http_response: HttpResponse.nullable(),
    })
    .nullable(),
  validated_at: time,
});
