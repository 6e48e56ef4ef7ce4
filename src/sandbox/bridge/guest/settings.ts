import type { Tunnel } from "../tunnel.ts";

/** What the guest program is told, as JSON in its only argument. It holds no secret. */
export interface GuestSettings {
  /** Absent where nothing leads outside. */
  readonly proxyPort?: number;
  readonly tunnels: readonly Tunnel[];
}
