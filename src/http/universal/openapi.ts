import { z } from "zod";
import * as contract from "../../contract/index.ts";
import { type ErrorCode, ERRORS } from "../../contract/index.ts";
import type { Operation } from "../operation.ts";
import { eventOperations } from "./events.ts";
import { fsOperations } from "./files.ts";
import { actionOperations, messageOperations } from "./messages.ts";
import * as responses from "./responses.ts";
import { sandboxOperations } from "./sandbox.ts";
import { serverOperations } from "./server.ts";
import { sessionOperations } from "./sessions.ts";
import { tokenOperations } from "./tokens.ts";

/** Every call of the universal dialect, and the server's own, in the order of the document. */
export const operations = {
  ...serverOperations,
  ...sessionOperations,
  ...messageOperations,
  ...eventOperations,
  ...actionOperations,
  ...sandboxOperations,
  ...fsOperations,
  ...tokenOperations,
} as const;

/** The OpenAPI document of the contract's schemas and the operations. */
export function toOpenApi({ version }: { version: string }): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of Object.values(operations) as Operation[]) {
    (paths[operation.path] ??= {})[operation.method.toLowerCase()] = toOperation(operation);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "sluice",
      version,
      description: "Runs coding agents in a sandbox and keeps one durable event log per session.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "http://127.0.0.1:7411" }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: toComponents(),
    },
  };
}

/** Schemas that have a name in the document. Other schemas refer to them by this name. */
const NAMED: Record<string, z.ZodType> = {
  SluiceEvent: contract.SluiceEvent,
  Item: contract.Item,
  ContentPart: contract.ContentPart,
  Usage: contract.Usage,
  StderrOutput: contract.StderrOutput,
  CreateSession: contract.CreateSession,
  McpServer: contract.McpServer,
  UpdateSession: contract.UpdateSession,
  SessionInfo: contract.SessionInfo,
  ShownSpec: contract.ShownSpec,
  PendingAction: contract.PendingAction,
  SendMessage: contract.SendMessage,
  Attachment: contract.Attachment,
  PermissionReply: contract.PermissionReply,
  QuestionReply: contract.QuestionReply,
  ToolReply: contract.ToolReply,
  CreateToken: contract.CreateToken,
  TokenInfo: contract.TokenInfo,
  CreatedToken: contract.CreatedToken,
  ...(responses as Record<string, z.ZodType>),
};

const names = new Map<z.ZodType, string>(Object.entries(NAMED).map(([name, schema]) => [schema, name]));
const refOf = (name: string): string => `#/components/schemas/${name}`;

function toComponents(): Record<string, unknown> {
  const registry = z.registry<{ id: string }>();
  for (const [name, schema] of Object.entries(NAMED)) registry.add(schema, { id: name });
  const { schemas } = z.toJSONSchema(registry, { uri: refOf, io: "input" });
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, strip(schema)]));
}

function toOperation(operation: Operation): Record<string, unknown> {
  const { answer, body, tag, id, summary } = operation;
  const content = answer.mime && { [answer.mime]: { schema: toSchema(answer.schema) } };
  const codes = new Set<ErrorCode>(operation.errors);
  const isOpen = operation.scope === "open";
  if (!isOpen) codes.add("token_invalid").add("permission_denied");
  return {
    operationId: id,
    tags: [tag],
    summary,
    security: isOpen ? [] : [{ token: [operation.scope] }],
    parameters: toParameters(operation),
    ...(body && { requestBody: { required: true, content: toBodyContent(body) } }),
    responses: {
      [answer.status]: {
        description: answer.description,
        ...(answer.headers && { headers: toHeaders(answer.headers) }),
        ...(content && { content }),
      },
      ...toErrors(codes),
    },
  };
}

function toParameters({ path, query, headers = {} }: Operation): unknown[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const described = query ? (z.toJSONSchema(query) as { properties?: Record<string, object> }) : {};
  const missing = new Set(query?.safeParse({}).error?.issues.map((issue) => issue.path[0]));
  const inQuery = Object.entries(described.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = schema as { description?: string };
    return { name, in: "query", required: missing.has(name), description, schema: rest };
  });
  const inHeader = Object.entries(headers).map(([name, description]) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: { type: "string" },
  }));
  return [...inPath, ...inQuery, ...inHeader];
}

function toBodyContent(body: NonNullable<Operation["body"]>): Record<string, unknown> {
  if (body.kind === "bytes") return { [body.mime]: { schema: toSchema(undefined) } };
  return { "application/json": { schema: toSchema(body.schema) } };
}

function toHeaders(headers: Readonly<Record<string, string>>): Record<string, unknown> {
  const described = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: "string" } },
  ]);
  return Object.fromEntries(described);
}

/** One response for each status, with the error codes of that status. */
function toErrors(codes: ReadonlySet<ErrorCode>): Record<string, unknown> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const { status } = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const problem = { "application/problem+json": { schema: { $ref: refOf("Problem") } } };
  const responses = [...byStatus].map(([status, some]) => [
    status,
    { description: some.join(", "), content: problem },
  ]);
  return Object.fromEntries(responses);
}

function toSchema(schema: z.ZodType | undefined): unknown {
  if (!schema) return { type: "string" };
  const name = names.get(schema);
  if (name) return { $ref: refOf(name) };
  if (schema instanceof z.ZodArray) return { type: "array", items: toSchema(schema.element as z.ZodType) };
  return strip(z.toJSONSchema(schema));
}

function strip(schema: object): Record<string, unknown> {
  const { $schema: _schema, $id: _id, ...rest } = schema as Record<string, unknown>;
  return rest;
}
