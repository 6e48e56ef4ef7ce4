import { z } from "zod";
import { Agent, deletedOf, Environment, listOf } from "../../../dialects/anthropic/answers/agents.ts";
import { CreateAgent, UpdateAgent } from "../../../dialects/anthropic/resources/agent.ts";
import { CreateEnvironment, UpdateEnvironment } from "../../../dialects/anthropic/resources/environment.ts";
import { defineOperations, json } from "../../operation.ts";
import { BETA, PREFIX } from "../dialect.ts";
import * as params from "../query.ts";

const Version = z
  .string()
  .regex(/^[1-9]\d{0,8}$/, "expected a whole number of at least 1")
  .transform(Number)
  .pipe(z.int())
  .optional();

const agents = { tag: "anthropic: agents", requiredHeaders: BETA } as const;

export const agentOperations = defineOperations({
  anthropicCreateAgent: {
    ...agents,
    method: "POST",
    path: `${PREFIX}/agents`,
    scope: "control",
    summary: "Creates an agent, at version 1",
    body: { kind: "json", schema: CreateAgent },
    answer: json("The agent", Agent),
    errors: ["too_large"],
  },
  anthropicListAgents: {
    ...agents,
    method: "GET",
    path: `${PREFIX}/agents`,
    scope: "read",
    summary: "The agents, newest first",
    query: z.object({ ...params.ArchivableListQuery.shape, ...params.createdAt }),
    answer: json("A page of agents", listOf(Agent)),
    errors: ["invalid_cursor"],
  },
  anthropicGetAgent: {
    ...agents,
    method: "GET",
    path: `${PREFIX}/agents/{id}`,
    scope: "read",
    summary: "An agent at its newest version, or at a given one",
    query: z.object({ version: Version }),
    answer: json("The agent", Agent),
    errors: ["not_found"],
  },
  anthropicUpdateAgent: {
    ...agents,
    method: "POST",
    path: `${PREFIX}/agents/{id}`,
    scope: "control",
    summary: "Changes an agent, which makes a new version of it",
    body: { kind: "json", schema: UpdateAgent, optional: true },
    answer: json("The changed agent", Agent),
    errors: ["not_found", "version_conflict", "too_large"],
  },
  anthropicArchiveAgent: {
    ...agents,
    method: "POST",
    path: `${PREFIX}/agents/{id}/archive`,
    scope: "control",
    summary: "Archives an agent: it cannot be changed or used by a new session",
    answer: json("The archived agent", Agent),
    errors: ["not_found"],
  },
  anthropicListAgentVersions: {
    ...agents,
    method: "GET",
    path: `${PREFIX}/agents/{id}/versions`,
    scope: "read",
    summary: "Every version of an agent, newest first",
    query: params.ListQuery,
    answer: json("A page of versions", listOf(Agent)),
    errors: ["not_found", "invalid_cursor"],
  },
});

const environments = { tag: "anthropic: environments", requiredHeaders: BETA } as const;

export const environmentOperations = defineOperations({
  anthropicCreateEnvironment: {
    ...environments,
    method: "POST",
    path: `${PREFIX}/environments`,
    scope: "control",
    summary: "Creates an environment; its name is unique among those that are not archived",
    body: { kind: "json", schema: CreateEnvironment },
    answer: json("The environment", Environment),
    errors: ["name_taken", "too_large"],
  },
  anthropicListEnvironments: {
    ...environments,
    method: "GET",
    path: `${PREFIX}/environments`,
    scope: "read",
    summary: "The environments, newest first",
    query: params.ArchivableListQuery,
    answer: json("A page of environments", listOf(Environment)),
    errors: ["invalid_cursor"],
  },
  anthropicGetEnvironment: {
    ...environments,
    method: "GET",
    path: `${PREFIX}/environments/{id}`,
    scope: "read",
    summary: "An environment",
    answer: json("The environment", Environment),
    errors: ["not_found"],
  },
  anthropicUpdateEnvironment: {
    ...environments,
    method: "POST",
    path: `${PREFIX}/environments/{id}`,
    scope: "control",
    summary: "Changes an environment; sessions keep the one that they started with",
    body: { kind: "json", schema: UpdateEnvironment, optional: true },
    answer: json("The changed environment", Environment),
    errors: ["not_found", "name_taken", "too_large"],
  },
  anthropicArchiveEnvironment: {
    ...environments,
    method: "POST",
    path: `${PREFIX}/environments/{id}/archive`,
    scope: "control",
    summary: "Archives an environment: its sessions continue, and no new one starts in it",
    answer: json("The archived environment", Environment),
    errors: ["not_found"],
  },
  anthropicDeleteEnvironment: {
    ...environments,
    method: "DELETE",
    path: `${PREFIX}/environments/{id}`,
    scope: "control",
    summary: "Removes an environment that no session uses",
    answer: json("The removed environment", deletedOf("environment_deleted")),
    errors: ["not_found"],
  },
});
