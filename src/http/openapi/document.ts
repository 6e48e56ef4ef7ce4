import { z } from "zod";
import type { ErrorCode } from "../../contract/index.ts";
import type { Answer, Operation } from "../operation.ts";
import { DIALECTS, type DocumentedDialect } from "./table.ts";

/** The OpenAPI document of every dialect. */
export function toOpenApi({ version }: { version: string }): Record<string, unknown> {
  const schemas = new DocumentSchemas();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const dialect of DIALECTS)
    for (const operation of Object.values(dialect.operations))
      (paths[operation.path] ??= {})[operation.method.toLowerCase()] = toOperation(
        operation,
        dialect,
        schemas,
      );
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
      securitySchemes: {
        token: { type: "http", scheme: "bearer" },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
      },
      schemas: schemas.components,
    },
  };
}

const refOf = (name: string): string => `#/components/schemas/${name}`;

/** The JSON schemas of the document: named ones are components, others are inlined where they are used. */
class DocumentSchemas {
  readonly #names = new Map<z.ZodType, string>();
  readonly #all: Readonly<Record<string, Record<string, unknown>>>;

  constructor() {
    const registry = z.registry<{ id: string }>();
    const add = (schema: z.ZodType | undefined, name: string): void => {
      if (!schema || this.#names.has(schema)) return;
      this.#names.set(schema, name);
      registry.add(schema, { id: name });
    };
    for (const dialect of DIALECTS)
      for (const [name, schema] of Object.entries(dialect.schemas)) add(schema, name);
    for (const { operations } of DIALECTS)
      for (const { id, body, answer, otherAnswers = [] } of Object.values(operations)) {
        add(body?.schema, `${INLINE}${id}.body`);
        for (const [index, one] of [answer, ...otherAnswers].entries())
          add(one.schema, `${INLINE}${id}.${index}`);
      }
    const { schemas } = z.toJSONSchema(registry, {
      uri: refOf,
      io: "input",
      unrepresentable: "any",
      override: ({ jsonSchema }) => tellDefault(jsonSchema),
    });
    this.#all = Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, strip(schema)]));
  }

  get components(): Record<string, unknown> {
    return Object.fromEntries(Object.entries(this.#all).filter(([name]) => !name.startsWith(INLINE)));
  }

  of(schema: z.ZodType | undefined): unknown {
    const name = schema && this.#names.get(schema);
    if (name === undefined) return { type: "string" };
    return name.startsWith(INLINE) ? this.#all[name] : { $ref: refOf(name) };
  }
}

const INLINE = "inline.";

/** Generators of clients demand a field that has a default, so the description names it. */
function tellDefault(schema: { default?: unknown; description?: string }): void {
  if (schema.default === undefined) return;
  const words = `default: ${JSON.stringify(schema.default)}`;
  schema.description = schema.description === undefined ? words : `${schema.description} (${words})`;
  delete schema.default;
}

function toOperation(
  operation: Operation,
  dialect: DocumentedDialect,
  schemas: DocumentSchemas,
): Record<string, unknown> {
  const { answer, body, tag, id, summary, otherAnswers = [] } = operation;
  const isOpen = operation.scope === "open";
  const codes = new Set<ErrorCode>([...(operation.errors ?? []), ...(isOpen ? [] : dialect.commonErrors)]);
  return {
    operationId: id,
    tags: [tag],
    summary,
    security: isOpen ? [] : dialect.security.map((name) => ({ [name]: [operation.scope] })),
    parameters: toParameters(operation),
    ...(body && {
      requestBody: {
        required: !(body.kind === "json" && body.optional),
        content: {
          [body.kind === "json" ? "application/json" : body.mime]: { schema: schemas.of(body.schema) },
        },
      },
    }),
    responses: { ...toAnswers([answer, ...otherAnswers], schemas), ...toErrors(codes, dialect) },
  };
}

/** One response for each status, with all of its content types. */
function toAnswers(answers: readonly Answer[], schemas: DocumentSchemas): Record<string, unknown> {
  const byStatus: Record<string, { description: string; headers?: object; content?: object }> = {};
  for (const { status, description, headers, mime, schema } of answers) {
    const before = byStatus[status];
    const content = { ...before?.content, ...(mime && { [mime]: { schema: schemas.of(schema) } }) };
    byStatus[status] = {
      description: before ? `${before.description}; ${mime}: ${description}` : description,
      ...(before?.headers && { headers: before.headers }),
      ...(headers && { headers: { ...before?.headers, ...toHeaders(headers) } }),
      ...(Object.keys(content).length > 0 && { content }),
    };
  }
  return byStatus;
}

function toParameters({ path, query, headers = {}, requiredHeaders = {} }: Operation): unknown[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const described = query
    ? (z.toJSONSchema(query, { unrepresentable: "any" }) as { properties?: Record<string, object> })
    : {};
  const missing = new Set(query?.safeParse({}).error?.issues.map((issue) => issue.path[0]));
  const inQuery = Object.entries(described.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = schema as { description?: string };
    return { name, in: "query", required: missing.has(name), description, schema: rest };
  });
  return [
    ...inPath,
    ...inQuery,
    ...toHeaderParameters(requiredHeaders, true),
    ...toHeaderParameters(headers, false),
  ];
}

function toHeaderParameters(headers: Readonly<Record<string, string>>, required: boolean): unknown[] {
  return Object.entries(headers).map(([name, description]) => ({
    name,
    in: "header",
    required,
    description,
    schema: { type: "string" },
  }));
}

function toHeaders(headers: Readonly<Record<string, string>>): Record<string, unknown> {
  const described = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: "string" } },
  ]);
  return Object.fromEntries(described);
}

/** One response for each status, with the error codes of that status. */
function toErrors(
  codes: ReadonlySet<ErrorCode>,
  { error, statusOf }: DocumentedDialect,
): Record<string, unknown> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) byStatus.set(statusOf(code), [...(byStatus.get(statusOf(code)) ?? []), code]);
  const content = { [error.mime]: { schema: { $ref: refOf(error.schema) } } };
  const responses = [...byStatus].map(([status, some]) => [
    status,
    { description: some.join(", "), content },
  ]);
  return Object.fromEntries(responses);
}

function strip(schema: object): Record<string, unknown> {
  const { $schema: _schema, $id: _id, ...rest } = schema as Record<string, unknown>;
  return rest;
}
