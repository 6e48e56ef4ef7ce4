import type { z } from "zod";
import type * as responses from "../../contract/responses.ts";

export type NodeInfo = z.infer<typeof responses.NodeInfo>;

/** Another server of the same database. */
export interface Peer {
  /** One life of its process. */
  readonly life: string;
  readonly name: string;
  /** Absent while it starts. */
  readonly url?: string;
}

/** The servers that share a database, as one of them sees them (docs/decisions/0103). */
export interface Nodes {
  readonly life: string;
  readonly name: string;
  /** Whether this node shuts down. */
  readonly isDraining: boolean;
  /** How long a request waits for a new owner when a node dies: a lease and a little. */
  readonly patienceMs: number;
  /** Signs forwarded requests with the first key, and accepts all. */
  readonly keys: readonly Uint8Array[];
  /** The node that has the session; undefined where it is this one, or none. */
  locate(session: string): Promise<Peer | undefined>;
  isAlive(life: string): Promise<boolean>;
  /** Whether this node reports the events of a session with this owner; without one, those of a removed session. */
  reports(owner: string | undefined): boolean;
  /** Calls the listener after a node has gone. */
  onGone(listener: () => void): () => void;
  list(): Promise<NodeInfo[]>;
}
