"""What a conversion cost: the converted model beside its original, on recordings."""
