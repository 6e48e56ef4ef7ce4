import type { Params, RpcId } from "../rpc.ts";

export function toRequest(id: RpcId, method: string, params: Params): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

export function toNotification(method: string, params: Params): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

export function toResponse(id: RpcId, result: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

export function toRefusal(id: RpcId, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message } });
}
