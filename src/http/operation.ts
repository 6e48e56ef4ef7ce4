import type { z } from "zod";
import type { ErrorCode } from "../contract/index.ts";

/** One call of the API. The router mounts it and the OpenAPI document describes it, both from here. */
export interface Operation<Query = unknown, Body = unknown> {
  readonly id: string;
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** With `{name}` for what varies. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly query?: z.ZodType<Query>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: BodySpec<Body>;
  readonly answer: Answer;
  readonly errors?: readonly ErrorCode[];
  /** Answered without a token. */
  readonly open?: true;
}

export type BodySpec<Body> =
  | { readonly kind: "json"; readonly schema: z.ZodType<Body> }
  /** Read by the route itself, up to the upload limit. */
  | { readonly kind: "bytes"; readonly mime: string };

export interface Answer {
  readonly status: 200 | 204;
  readonly description: string;
  readonly schema?: z.ZodType;
  readonly mime?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function defineOperation<Query = undefined, Body = undefined>(
  operation: Operation<Query, Body>,
): Operation<Query, Body> {
  return operation;
}

export const done = (description: string, headers?: Answer["headers"]): Answer => ({
  status: 204,
  description,
  ...(headers && { headers }),
});
export const json = (description: string, schema: z.ZodType): Answer => ({
  status: 200,
  description,
  schema,
  mime: "application/json",
});
export const events = (description: string, headers?: Answer["headers"]): Answer => ({
  status: 200,
  description,
  mime: "text/event-stream",
  ...(headers && { headers }),
});
