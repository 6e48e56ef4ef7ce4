export function buildSite(folder: string): string[];
