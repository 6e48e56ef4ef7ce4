import { randomBytes } from "node:crypto";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { EDGE_PATH, TOKEN_HEADER } from "../runner/edge.ts";
import { toAcceptKey, WebSocketStream } from "../runner/web-socket.ts";
import type { MachineAddress } from "./vendor.ts";

const TIMEOUT_MS = 20_000;

/** A stream to the runner, through the edge of a vendor. It is never opened without the token of the sandbox. */
export function dialEdge({ url, headers }: MachineAddress, token: string): Promise<Duplex> {
  if (token === "") throw new Error("the sandbox has no token");
  const key = randomBytes(16).toString("base64");
  const request = (url.protocol === "http:" ? httpRequest : httpsRequest)({
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port || (url.protocol === "http:" ? 80 : 443),
    path: `${url.pathname.replace(/\/$/, "")}${EDGE_PATH}${url.search}`,
    headers: {
      ...headers,
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": key,
      [TOKEN_HEADER]: token,
    },
    agent: false,
    timeout: TIMEOUT_MS,
  });
  return new Promise((resolve, reject) => {
    request.on("upgrade", (response, socket, first) => {
      if (response.headers["sec-websocket-accept"] !== toAcceptKey(key)) {
        socket.destroy();
        return reject(new Error("the edge does not speak WebSocket"));
      }
      socket.setTimeout(0);
      socket.setNoDelay(true);
      resolve(new WebSocketStream(socket, { first, masks: true }));
    });
    request.on("response", (response) => {
      response.destroy();
      reject(new Error(`the edge answered ${response.statusCode}`));
    });
    request.on("timeout", () => request.destroy(new Error("the edge does not answer")));
    request.on("error", reject);
    request.end();
  });
}
