/**
 * The needs of a container beyond its image. They are fixed at its creation, so a further need takes a new container
 * with all needs so far.
 */
export interface Requirements {
  /** Host files and folders, seen at the same paths, read-only. */
  readonly needs: readonly string[];
  /** Hosts that the egress proxy allows. */
  readonly hosts: readonly string[];
}

const LABEL = "sluice.requirements";

export const NO_REQUIREMENTS: Requirements = { needs: [], hosts: [] };

export function union(one: Requirements, other: Requirements): Requirements {
  return {
    needs: [...new Set([...one.needs, ...other.needs])].sort(),
    hosts: [...new Set([...one.hosts, ...other.hosts])].sort(),
  };
}

export function covers(one: Requirements, other: Requirements): boolean {
  return isSubset(other.needs, one.needs) && isSubset(other.hosts, one.hosts);
}

function isSubset(part: readonly string[], whole: readonly string[]): boolean {
  return new Set([...whole, ...part]).size === new Set(whole).size;
}

export function toRequirementLabels(requirements: Requirements): Record<string, string> {
  return { [LABEL]: JSON.stringify(requirements) };
}

export function fromRequirementLabels(labels: Readonly<Record<string, string>>): Requirements {
  return JSON.parse(labels[LABEL] ?? JSON.stringify(NO_REQUIREMENTS)) as Requirements;
}
