import type { SpoolLine } from "../contract/index.ts";
import { type Fields, isRecord, parseObject, toFields } from "./fields.ts";

/** JSON-RPC as the agents speak it: one message per line, with or without the `jsonrpc` field. */
export type RpcMessage =
  | { readonly kind: "request"; readonly id: RpcId; readonly method: string; readonly params: Params }
  | { readonly kind: "notification"; readonly method: string; readonly params: Params }
  | { readonly kind: "result"; readonly id: RpcId; readonly result: unknown }
  | { readonly kind: "error"; readonly id: RpcId; readonly error: RpcError };

export type RpcId = string | number;
export type Params = Fields;

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** The message of a line; undefined for any other line. */
export function parseRpc(line: SpoolLine): RpcMessage | undefined {
  const value = parseObject(line);
  return typeof value === "string" ? undefined : toRpcMessage(value);
}

export function toRpcMessage(value: Fields): RpcMessage | undefined {
  const { id, method, params, result, error } = value;
  const hasId = typeof id === "string" || typeof id === "number";
  const given = toFields(params);
  if (typeof method === "string") {
    return hasId
      ? { kind: "request", id, method, params: given }
      : { kind: "notification", method, params: given };
  }
  if (!hasId) return undefined;
  if (isRecord(error)) {
    const { code, message, data } = error;
    return {
      kind: "error",
      id,
      error: {
        code: typeof code === "number" ? code : 0,
        message: typeof message === "string" ? message : JSON.stringify(error),
        ...(data === undefined ? {} : { data }),
      },
    };
  }
  return "result" in value ? { kind: "result", id, result } : undefined;
}

export function toRequest(id: RpcId, method: string, params: Params): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

export function toNotification(method: string, params: Params): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

export function toResponse(id: RpcId, result: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

/** The codes of JSON-RPC for a request that is not answered. */
export const REFUSALS = { unknownMethod: -32601, invalidParams: -32602 } as const;

export function toRefusal(id: RpcId, reason: keyof typeof REFUSALS, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: REFUSALS[reason], message } });
}
