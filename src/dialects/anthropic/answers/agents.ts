import { z } from "zod";
import { Metadata } from "../resources/resource.ts";
import { CustomTool, McpServerParams, Policy } from "../resources/tools.ts";

// The documented fields of resources. A later version may add fields.

/** A time in RFC 3339. */
export const time = z.iso.datetime({ offset: true });

/** A page of a list. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    data: z.array(item),
    next_page: z.string().nullable().describe("the cursor of the next page, for `page`"),
  });

/** The answer to a deletion. */
export const deletedOf = <Type extends string>(type: Type) =>
  z.object({ id: z.string(), type: z.literal(type) });

const resolvedSwitch = { enabled: z.boolean(), permission_policy: Policy };
const ResolvedSwitch = z.object(resolvedSwitch);

const Tool = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("agent_toolset_20260401"),
    default_config: ResolvedSwitch,
    configs: z.array(
      z.object({ type: z.string(), name: z.string(), ...resolvedSwitch }).describe("one tool of the toolset"),
    ),
  }),
  z.object({
    type: z.literal("mcp_toolset"),
    mcp_server_name: z.string(),
    default_config: ResolvedSwitch,
    configs: z.array(z.object({ name: z.string(), ...resolvedSwitch })),
  }),
  CustomTool,
]);

const Effort = z.enum(["low", "medium", "high", "xhigh", "max"]);

/** The agent as a session has it. */
export const SessionAgent = z.object({
  id: z.string(),
  type: z.literal("agent"),
  version: z.int(),
  name: z.string(),
  description: z.string().nullable(),
  model: z.object({
    id: z.string(),
    effort: z.object({ type: Effort }).optional(),
    inference_geo: z.string().optional(),
    speed: z.enum(["standard", "fast"]),
  }),
  system: z.string().nullable(),
  tools: z.array(Tool),
  mcp_servers: z.array(McpServerParams),
  skills: z.array(
    z.object({
      type: z.enum(["anthropic", "custom"]),
      skill_id: z.string(),
      version: z.string().describe("the id of a version, or `latest`"),
    }),
  ),
  multiagent: z.null(),
  execution_identity: z.object({ type: z.literal("service_account") }),
});

export const Agent = SessionAgent.extend({
  metadata: Metadata,
  created_at: time,
  updated_at: time,
  archived_at: time.nullable(),
});

const packages = z.array(z.string());

export const Environment = z.object({
  id: z.string(),
  type: z.literal("environment"),
  name: z.string(),
  description: z.string().nullable(),
  config: z.discriminatedUnion("type", [
    z.object({
      type: z.literal("cloud"),
      networking: z.discriminatedUnion("type", [
        z.object({ type: z.literal("unrestricted") }),
        z.object({
          type: z.literal("limited"),
          allowed_hosts: z.array(z.string()),
          allow_mcp_servers: z.boolean(),
          allow_package_managers: z.boolean(),
        }),
      ]),
      packages: z.object({
        type: z.literal("packages"),
        apt: packages,
        cargo: packages,
        gem: packages,
        go: packages,
        npm: packages,
        pip: packages,
      }),
    }),
    z.object({ type: z.literal("self_hosted") }),
  ]),
  metadata: Metadata,
  scope: z.literal("organization"),
  created_at: time,
  updated_at: time,
  archived_at: time.nullable(),
});

export const Work = z.object({
  id: z.string(),
  type: z.literal("work"),
  environment_id: z.string(),
  data: z.object({ type: z.literal("session"), id: z.string() }),
  secret: z.string().nullable().describe("for the worker that polls the work, and null elsewhere"),
  state: z.enum(["queued", "starting", "active", "stopping", "stopped"]),
  metadata: Metadata,
  created_at: time,
  acknowledged_at: time.nullable(),
  started_at: time.nullable(),
  latest_heartbeat_at: time.nullable(),
  stop_requested_at: time.nullable(),
  stopped_at: time.nullable(),
});

export const WorkQueueStats = z.object({
  type: z.literal("work_queue_stats"),
  depth: z.int().describe("work that no worker has polled"),
  pending: z.int().describe("work that a worker has polled and not acknowledged"),
  oldest_queued_at: time.nullable(),
  workers_polling: z.int(),
});

export const WorkHeartbeat = z.object({
  type: z.literal("work_heartbeat"),
  last_heartbeat: z.string(),
  lease_extended: z.boolean(),
  state: Work.shape.state,
  ttl_seconds: z.int(),
});

/** The body of every error. */
export const ErrorEnvelope = z.object({
  type: z.literal("error"),
  error: z.object({
    type: z.string(),
    message: z.string(),
    details: z.object({ error_code: z.string() }).optional(),
  }),
  request_id: z.string(),
});
